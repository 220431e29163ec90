import { lineOf } from '../document.ts';
import { totalOf } from '../service/cpu.ts';
import type { Shape } from '../service/shape.ts';
import type { KindTaken } from './measure.ts';

export type Kind = 'empty' | 'rows';

/** What one shape of an installation took. */
export interface ShapeTaken {
  readonly shape: Shape;
  /** Its PostgreSQL, in one line. */
  readonly server: string;
  /** Median from the dispatch of a lone empty run to its record, in milliseconds. */
  readonly aloneMs: number;
  readonly empty?: KindTaken;
  readonly rows?: KindTaken;
}

const labels = { empty: 'empty, to NoOp', rows: '100 rows, to S3' } as const;
/** Runs per second that two cores should reach, and times of the bare loop. */
const goals = {
  'all-in-one': { cold: 200, warm: 350, ratio: 2.2 },
  processes: { cold: 300, warm: 400, ratio: 1.8 },
} as const;
const statementGoals = { cold: 8, warm: 4 } as const;
const requestGoal = 2;
const aloneGoalMs = 25;
/** Heads of the two tables of docs/internals/benchmarks.md. */
export const headOf = {
  runs: [
    ...['installation', 'run', 'runs/s', 'statements', 'S3 requests', 'API CPU ms'],
    ...['worker CPU ms', 'Redis CPU ms', 'PostgreSQL CPU ms', 'all of these', 'S3 CPU ms'],
    ...['claim to end ms, p50 / p99', 'no core busy'],
  ],
  loops: [
    ...['installation', 'bare loop', 'runs/s', 'its CPU ms (own + PostgreSQL + S3)'],
    ...['our warm time to its', 'with a BullMQ job per run: runs/s', 'our warm time to that'],
    'lone run ms',
  ],
} as const;

/** Markdown: a line for each kind and time, and one for each bare loop. CPU is of all processes. */
export function printRuns(installation: string, { shape, aloneMs, ...of }: ShapeTaken) {
  const goal = goals[shape];
  const kinds = (['empty', 'rows'] as const).flatMap((kind) => {
    const taken = of[kind];
    return taken ? [{ kind, taken }] : [];
  });
  const runs = kinds.flatMap(({ kind, taken }) =>
    (['cold', 'warm'] as const).map((time) => {
      const { runsPerSecond, statements, requests, cpu, p50, p99, idle } = taken[time];
      const isEmpty = kind === 'empty';
      const isOne = shape === 'all-in-one';
      return lineOf([
        ...[installation, `${labels[kind]}, ${time}`],
        withGoal(runsPerSecond, isEmpty ? goal[time] : null),
        withGoal(statements, isEmpty ? statementGoals[time] : null, 1),
        withGoal(requests, isEmpty ? null : requestGoal, 1),
        ...[isOne ? '' : shown(cpu.api, 1), shown(cpu.worker, 1), isOne ? '' : shown(cpu.redis, 1)],
        ...[shown(cpu.postgres, 1), shown(totalOf(cpu), 1), shown(cpu.s3, 1)],
        ...[`${shown(p50)} / ${shown(p99)}`, `${shown(100 * idle)}%`],
      ]);
    }),
  );
  const loops = kinds.map(({ kind, taken: { bare, bareJobsPerSecond, ratio } }) =>
    lineOf([
      ...[installation, labels[kind], shown(bare.runsPerSecond)],
      `${shown(bare.cpu.worker, 1)} + ${shown(bare.cpu.postgres, 1)} + ${shown(bare.cpu.s3, 1)}`,
      withGoal(ratio, kind === 'rows' ? goal.ratio : null, 2),
      shown(bareJobsPerSecond),
      shown((ratio * bareJobsPerSecond) / bare.runsPerSecond, 2),
      kind === 'rows' || Number.isNaN(aloneMs) ? '' : withGoal(aloneMs, aloneGoalMs),
    ]),
  );
  return { runs, loops };
}

function withGoal(value: number, goal: number | null, digits = 0): string {
  return goal === null ? shown(value, digits) : `${shown(value, digits)} (${goal})`;
}

function shown(value: number, digits = 0): string {
  return value.toFixed(digits);
}
