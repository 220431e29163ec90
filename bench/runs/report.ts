import type { KindTaken } from './measure.ts';

/** What one queue took. */
export interface QueueTaken {
  readonly queue: string;
  /** Median from the dispatch of a lone empty run to its record, in milliseconds. */
  readonly aloneMs: number;
  readonly empty?: KindTaken;
  readonly rows?: KindTaken;
}

const labels = { empty: 'empty, to NoOp', rows: '100 rows, to S3' } as const;
/** What two cores should reach. */
const bars = {
  empty: { runsPerSecond: 120, statements: 20, cpuMs: 5, ratio: 1.6 },
  rows: { runsPerSecond: 60, statements: 25, cpuMs: null, ratio: 1.6 },
} as const;
const aloneBarMs = 25;

/** Markdown: a table with a line for each kind and queue, and one for the latency. */
export function printRuns(about: string, taken: readonly QueueTaken[]): string {
  const lines = taken.flatMap(({ queue, ...kinds }) =>
    (['empty', 'rows'] as const).flatMap((kind) => {
      const of = kinds[kind];
      if (!of) return [];
      const bar = bars[kind];
      const { cpu, bare } = of;
      const cells = [
        `${labels[kind]}, queue in ${queue}`,
        `${shown(of.runsPerSecond)} (${bar.runsPerSecond})`,
        `${shown(of.statements, 1)} (${bar.statements})`,
        bar.cpuMs === null ? shown(cpu.worker, 1) : `${shown(cpu.worker, 1)} (${bar.cpuMs})`,
        shown(cpu.postgres, 1),
        shown(cpu.redis, 1),
        shown(cpu.s3, 1),
        `${shown(of.p50)} / ${shown(of.p99)}`,
        shown(bare.runsPerSecond),
        `${shown(bare.cpu.worker, 1)} + ${shown(bare.cpu.postgres, 1)} + ${shown(bare.cpu.s3, 1)}`,
        `${shown(of.ratio, 2)} (${bar.ratio})`,
        `${shown(of.bareJobsPerSecond)}, ${shown(bare.runsPerSecond / of.bareJobsPerSecond, 2)}`,
        shown((of.ratio * of.bareJobsPerSecond) / bare.runsPerSecond, 2),
      ];
      return [`| ${cells.join(' | ')} |`];
    }),
  );
  const head = [
    'run',
    'runs/s',
    'statements',
    'worker CPU ms',
    'PostgreSQL CPU ms',
    'Redis CPU ms',
    'S3 CPU ms',
    'claim to end ms, p50 / p99',
    'bare loop runs/s',
    'its CPU ms (own + PostgreSQL + S3)',
    'ratio',
    'bare loop with a BullMQ job a run: runs/s, ratio',
    'our ratio to that',
  ];
  const alone = taken
    .filter(({ aloneMs }) => !Number.isNaN(aloneMs))
    .map(({ queue, aloneMs }) => `${shown(aloneMs)} ms with the queue in ${queue}`);
  return [
    about,
    '',
    `| ${head.join(' | ')} |`,
    `|${head.map(() => '---|').join('')}`,
    ...lines,
    '',
    `An empty run that is alone, from dispatch to record, median: ${alone.join(', ')} (${aloneBarMs}).`,
  ].join('\n');
}

function shown(value: number, digits = 0): string {
  return value.toFixed(digits);
}
