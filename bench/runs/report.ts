import type { KindTaken } from './measure.ts';

export type Kind = 'empty' | 'rows';

/** What one queue took. */
export interface QueueTaken {
  readonly queue: string;
  /** Median from the dispatch of a lone empty run to its record, in milliseconds. */
  readonly aloneMs: number;
  readonly empty?: KindTaken;
  readonly rows?: KindTaken;
}

const labels = { empty: 'empty, to NoOp', rows: '100 rows, to S3' } as const;
/** What two cores should reach. Null: there is no bar. */
const bars = {
  empty: {
    cold: { runsPerSecond: 300, statements: 8, cpuMs: null, requests: null },
    warm: { runsPerSecond: 400, statements: 4, cpuMs: 4, requests: null },
    ratio: null,
  },
  rows: {
    cold: { runsPerSecond: null, statements: null, cpuMs: null, requests: 2 },
    warm: { runsPerSecond: null, statements: null, cpuMs: null, requests: 2 },
    ratio: 1.8,
  },
} as const;
const aloneBarMs = 25;

/** Markdown: a line for each kind, queue and time, one for each bare loop, and one for the latency. */
export function printRuns(about: string, taken: readonly QueueTaken[]): string {
  const both = taken.flatMap(({ queue, ...of }) =>
    (['empty', 'rows'] as const).flatMap((kind) => {
      const found = of[kind];
      return found ? [{ name: `${labels[kind]}, queue in ${queue}`, kind, of: found }] : [];
    }),
  );
  const runs = both.flatMap(({ name, kind, of }) =>
    (['cold', 'warm'] as const).map((time) => {
      const { runsPerSecond, statements, requests, cpu, p50, p99, idle } = of[time];
      const bar = bars[kind][time];
      return [
        `${name}, ${time}`,
        barred(runsPerSecond, bar.runsPerSecond),
        barred(statements, bar.statements, 1),
        barred(requests, bar.requests, 1),
        barred(cpu.worker, bar.cpuMs, 1),
        ...[shown(cpu.postgres, 1), shown(cpu.redis, 1), shown(cpu.s3, 1)],
        `${shown(p50)} / ${shown(p99)}`,
        `${shown(100 * idle)}%`,
      ];
    }),
  );
  const loops = both.map(({ name, kind, of: { bare, bareJobsPerSecond, ratio } }) => [
    name,
    shown(bare.runsPerSecond),
    `${shown(bare.cpu.worker, 1)} + ${shown(bare.cpu.postgres, 1)} + ${shown(bare.cpu.s3, 1)}`,
    barred(ratio, bars[kind].ratio, 2),
    shown(bareJobsPerSecond),
    shown((ratio * bareJobsPerSecond) / bare.runsPerSecond, 2),
  ]);
  const alone = taken
    .filter(({ aloneMs }) => !Number.isNaN(aloneMs))
    .map(({ queue, aloneMs }) => `${shown(aloneMs)} ms with the queue in ${queue}`);
  return [
    about,
    '',
    ...tableOf(
      [
        ...['run', 'runs/s', 'statements', 'S3 requests', 'worker CPU ms', 'PostgreSQL CPU ms'],
        ...['Redis CPU ms', 'S3 CPU ms', 'claim to end ms, p50 / p99', 'no core busy'],
      ],
      runs,
    ),
    '',
    ...tableOf(
      [
        ...['bare loop', 'runs/s', 'its CPU ms (own + PostgreSQL + S3)', 'our warm time to its'],
        ...['with a BullMQ job per run: runs/s', 'our warm time to that'],
      ],
      loops,
    ),
    '',
    `An empty run that is alone, from dispatch to record, median: ${alone.join(', ')} (${aloneBarMs}).`,
  ].join('\n');
}

function tableOf(head: readonly string[], lines: readonly (readonly string[])[]): string[] {
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`);
}

function barred(value: number, bar: number | null, digits = 0): string {
  return bar === null ? shown(value, digits) : `${shown(value, digits)} (${bar})`;
}

function shown(value: number, digits = 0): string {
  return value.toFixed(digits);
}
