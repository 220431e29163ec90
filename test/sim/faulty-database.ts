/** The real database behind a wire that breaks, and SQL with a bug that was put in on purpose. */

import type { Database, Sql } from '../../src/state/store/database/database.ts';

/** What became of a transaction: `unheard` was committed, but its answer was lost. */
export type Outcome = 'done' | 'lost' | 'unheard';

/** The worker hears nothing: it does not know whether the transaction was committed. */
export class Unheard extends Error {}

/** Bugs that can be put in on purpose: the simulator must find each of them. */
export type Defect =
  | 'ring_once'
  | 'put_unconditionally'
  | 'drop_missing'
  | 'forget_delivered'
  | 'plan_from_memory'
  | 'fence_never_rises'
  | 'hand_back_keeps_fence'
  | 'generation_again';

/** Those that are a change of the store's SQL: what is there, and what it becomes. */
const edits: Partial<Record<Defect, readonly [RegExp, string]>> = {
  ring_once: [/where \(dispatched_at < clock_timestamp\(\)[\s\S]*$/, 'where false and $1::int > 0'],
  fence_never_rises: [
    /(attempt = attempt \+ 1, )fence = fence \+ 1/,
    '$1fence = greatest(fence, 1)',
  ],
  generation_again: [/and committing_generation is distinct from file_generation/, ''],
  hand_back_keeps_fence: [
    /(update runs set status = 'Running', )fence = fence \+ 1, (lease_holder = null)/,
    '$1$2',
  ],
};

export interface FaultyDatabase extends Database {
  /** The next statement or transaction ends so; with `text`, the next statement that contains it. */
  failNext(outcome: Outcome, text?: string): void;
  /** Whether the defect's SQL was met at all: an edit that fits no statement any more finds nothing. */
  readonly edited: () => boolean;
}

export function faultyDatabase(real: Database, defect: Defect | null): FaultyDatabase {
  const edit = defect === null ? undefined : edits[defect];
  const remembered = new Map<string, object>();
  let next: Outcome = 'done';
  let awaited: string | undefined;
  let edited = edit === undefined;
  const withDefect = (sql: Sql): Sql => ({
    async query<Row extends object>(text: string, values?: readonly unknown[]) {
      const changed = edit ? text.replace(...edit) : text;
      if (changed !== text) edited = true;
      const rows = await sql.query<Row>(changed, values);
      const isPlan = defect === 'plan_from_memory' && text.includes('next_tick_at <= $1');
      return isPlan ? rows.map((row) => recall(row)) : rows;
    },
  });
  /** A planner that does not read the row it locks: it has each export's last but one schedule. */
  const recall = <Row extends object>(row: Row): Row => {
    const { exportId } = row as unknown as { exportId: string };
    const before = remembered.get(exportId) as Row | undefined;
    remembered.set(exportId, row);
    return before ?? row;
  };
  const endAs = async <T>(work: (outcome: Outcome) => Promise<T>): Promise<T> => {
    const outcome = next;
    next = 'done';
    const result = await work(outcome);
    if (outcome !== 'done') throw new Unheard();
    return result;
  };
  return {
    failNext(outcome, text) {
      next = outcome;
      awaited = text;
    },
    edited: () => edited,
    query: <Row extends object>(text: string, values?: readonly unknown[]) =>
      awaited !== undefined && !text.includes(awaited)
        ? withDefect(real).query<Row>(text, values)
        : endAs<Row[]>((outcome) =>
            outcome === 'lost' ? Promise.resolve([]) : withDefect(real).query<Row>(text, values),
          ),
    transaction: (work) =>
      awaited !== undefined
        ? real.transaction((tx) => work(withDefect(tx)))
        : endAs((outcome) =>
            real.transaction(async (tx) => {
              const result = await work(withDefect(tx));
              if (outcome === 'lost') throw new Unheard();
              return result;
            }),
          ),
    close: () => real.close(),
  };
}
