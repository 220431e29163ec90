/** Exports that heal, in virtual time: the real use cases and SQL, with stores, sources and intervals that fail as a scenario says. */

import { randomUUID } from 'node:crypto';
import {
  type ErrorCode,
  errorCatalogue,
  isErrorCode,
  SluiceError,
} from '../../src/foundation/domain/errors.ts';
import type { ExportMode } from '../../src/foundation/domain/export-settings.ts';
import type { Source } from '../../src/rows/sources/source.ts';
import type { Context } from '../../src/service/use-cases/context.ts';
import { heal } from '../../src/service/use-cases/healing/heal.ts';
import { decideTicks } from '../../src/service/use-cases/runs/decide-ticks.ts';
import {
  handOver,
  quarantineRun,
  recordFault,
} from '../../src/service/use-cases/runs/finish-run.ts';
import { lookBack, SlowExports } from '../../src/service/use-cases/runs/look-back.ts';
import { WorkGuard } from '../../src/service/use-cases/work-guard.ts';
import type { Database, Sql } from '../../src/state/store/database/database.ts';
import type { ClaimedRun } from '../../src/state/store/runs/claims.ts';
import { markReady } from '../../src/state/store/runs/outbox.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import { recordManifest } from '../support/record-manifest.ts';
import { exportOfThePast } from '../support/run-side.ts';
import { storeExport } from '../support/store-export.ts';
import { openLane } from './simulate.ts';

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const began = Date.UTC(2024, 2, 1);

/** What an attempt asks, at an hour since the begin. */
export interface Asked {
  readonly at: 'source' | 'store';
  /** The number of the export. */
  readonly export: number;
  /** The number of the interval. */
  readonly hour: number;
  /** Hours since the begin. */
  readonly now: number;
}

/** What answers: an error; null: it works. */
export type World = (asked: Asked) => ErrorCode | null;

export interface Scenario {
  readonly world: World;
  readonly hours: number;
  readonly exportCount: number;
  /** Ticks end at this hour; default: they do not. */
  readonly endsAt?: number;
  readonly concurrency?: number;
  /** Default: append. */
  readonly mode?: ExportMode;
  /** Whether intervals are compared with their source. */
  readonly looksBack?: boolean;
  /** Our own database is unreachable. */
  readonly away?: { readonly from: number; readonly to: number };
}

/** A change of the code that a test must find: of a statement, or of a function of the database. */
export interface Mutant {
  readonly text: string | RegExp;
  readonly becomes: string;
  readonly of?: 'note_hole()' | 'note_failing()';
}

export interface Played {
  /** When a store or a source that failed was asked, in hours, and by which export. */
  readonly requests: readonly (Asked & { readonly code: ErrorCode })[];
  /** Per export: the hours of intervals with a receipt, and when they got it; whether it is paused. */
  readonly exports: readonly {
    readonly done: ReadonlyMap<number, number>;
    readonly holes: number;
    readonly paused: boolean;
    readonly pausedCode: string | null;
    /** The hours of intervals whose place another has taken. */
    readonly superseded: readonly number[];
  }[];
  /** The most runs that an export had at a time. */
  readonly atATime: number;
  readonly attempts: readonly {
    readonly export: number;
    readonly hour: number;
    readonly now: number;
  }[];
}

/** Runs that a worker attempts at the same moment, in shared statements. */
const atOnce = 24;

export async function openHealing() {
  const lane = await openLane(null);
  let [now, ids]: [number, string[]] = [began, []];

  async function createExports({ exportCount, endsAt, mode = 'append' }: Scenario): Promise<void> {
    const endAt = endsAt === undefined ? null : began + endsAt * hourMs;
    ids = [];
    for (let index = 0; index < exportCount; index += 1) {
      const id = randomUUID();
      ids.push(id);
      const side = { db: lane.db, teamId: lane.teamIds[index % 2] ?? 0 };
      await storeExport(lane.db, {
        ...(await exportOfThePast(side, { createdMsAgo: 0, endAt })),
        ...{ id, name: `Export ${index}`, mode },
      });
    }
  }

  const hoursSince = (at: number) => (at - began) / hourMs;

  async function play(scenario: Scenario, mutant: Mutant | null = null): Promise<Played> {
    now = began;
    await lane.sim.reset(now);
    const db = mutant && mutant.of === undefined ? mutated(lane.db, mutant) : lane.db;
    const undo = mutant?.of === undefined ? null : await changeFunction(lane.db, mutant);
    try {
      await createExports(scenario);
      const { concurrency = 2 } = scenario;
      const policy = {
        ...lane.context.policy,
        backfillConcurrency: concurrency,
        lateLookbackHours: 3,
      };
      return await playIn({ ...lane.context, db, policy }, scenario);
    } finally {
      await undo?.();
    }
  }

  async function playIn(context: Context, scenario: Scenario): Promise<Played> {
    const { world, away } = scenario;
    const requests: (Asked & { code: ErrorCode })[] = [];
    const attempts: { export: number; hour: number; now: number }[] = [];
    const statements = new RunStatements(context.db, minuteMs);
    const ask = (at: Asked['at'], exportId: string, start: number) => {
      const asked = {
        ...{ at, export: ids.indexOf(exportId), hour: Math.round(hoursSince(start)) },
        now: hoursSince(now),
      };
      const code = world(asked);
      if (code === null) return;
      requests.push({ ...asked, code });
      throw new SluiceError(code);
    };
    const attempt = async (runId: string) => {
      const run = await statements.claim({ runId, holder: randomUUID() });
      if (!run) return;
      const { heldUpBy, exportId, interval } = run;
      if (heldUpBy !== null && isErrorCode(heldUpBy) && errorCatalogue[heldUpBy].retryable) {
        await handOver(context, run, heldUpBy);
        return;
      }
      attempts.push({
        ...{ export: ids.indexOf(exportId), hour: Math.round(hoursSince(interval.start)) },
        now: hoursSince(now),
      });
      try {
        if (run.purpose !== 'erase') ask('source', exportId, interval.start);
        ask('store', exportId, interval.start);
      } catch (error) {
        if (!(error instanceof SluiceError)) throw error;
        await fail(context, run, error);
        return;
      }
      const put = { manifestKey: 'm', manifestEtag: `"${run.fence}"`, rows: 0 };
      await recordManifest(context, run, put, undefined, statements);
    };
    let atATime = 0;
    const until = began + scenario.hours * hourMs + 30 * minuteMs;
    while (now < until) {
      now = await nextTime(until, scenario.looksBack === true);
      if (away && now >= began + away.from * hourMs && now < began + away.to * hourMs) {
        now = began + away.to * hourMs;
      }
      await lane.sim.setTime(now);
      await decideTicks(context, {
        onError(error) {
          throw error;
        },
      });
      // Two sweeps at once.
      await Promise.all([heal(context), heal(context)]);
      await markReady(context.db);
      const ready = await context.db.query<{ runId: string }>(
        `select run_id as "runId" from outbox where ready order by (backfill_id is not null), data_interval_start, run_id`,
      );
      const [live] = await context.db.query<{ most: number }>(
        `select coalesce(max(count), 0)::int as most from (
           select count(*) from runs where status in ('Starting', 'Running') group by export_id) per_export`,
      );
      atATime = Math.max(atATime, live?.most ?? 0);
      for (let at = 0; at < ready.length; at += atOnce) {
        await Promise.all(ready.slice(at, at + atOnce).map(({ runId }) => attempt(runId)));
      }
      if (scenario.looksBack) await lookAtSource(context, ask);
    }
    return { requests, attempts, atATime, exports: await readExports() };
  }

  /** Compares the intervals of the last hours with their source, as a worker does all the time. */
  async function lookAtSource(
    context: Context,
    ask: (at: 'source', exportId: string, start: number) => void,
  ): Promise<void> {
    const read = { snapshot: '1:1:@1', digest: null, count: 0 };
    const asked = async <Answer>(start: number, answer: Answer): Promise<Answer> => {
      ask('source', ids[0] ?? '', start);
      return answer;
    };
    const source: Partial<Source> = {
      recheck: ({ start }) =>
        asked(start, { settled: true, reason: null, pending: [], position: null }),
      lookAgain: ({ interval }) => asked(interval.start, { now: read, mayHaveLateRows: false }),
    };
    await lookBack(context, {
      sourceOf: () => source as Source,
      keepsFiles: () => true,
      onError: () => {},
      onMade: () => {},
      guard: new WorkGuard(context.db, () => {}),
      slow: new SlowExports(),
      stopping: new AbortController().signal,
    });
  }

  /** The next time at which something can happen, at least five seconds later, as sweeps do. */
  async function nextTime(until: number, looks: boolean): Promise<number> {
    const [row] = await lane.db.query<{ at: number | null }>(
      `select (extract(epoch from least((select min(next_tick_at) from batch_exports), (select min(available_at) from outbox),
         (select min(greatest(h.next_try_at, e.heal_after)) from holes h join batch_exports e on e.id = h.export_id
           where h.heals_since is not null and not e.paused and greatest(h.next_try_at, e.heal_after) > clock_timestamp()),
         (select min(clock_timestamp()) from holes h join batch_exports e on e.id = h.export_id
           where h.heals_since is not null and not e.paused and greatest(h.next_try_at, e.heal_after) <= clock_timestamp()))) * 1000)::float8 as at`,
    );
    const latest = Math.min(until, now + (looks ? 5 : 60) * minuteMs);
    return Math.min(latest, Math.max(now + 5_000, Math.ceil(row?.at ?? until)));
  }

  async function readExports(): Promise<Played['exports']> {
    const rows = await lane.db.query<{
      id: string;
      paused: boolean;
      pausedCode: string | null;
      holes: number;
      superseded: number[];
      done: { hour: number; at: number }[];
    }>(
      `select e.id, e.paused, e.paused_code as "pausedCode", (select count(*)::int from holes h where h.export_id = e.id) as holes,
              coalesce((select jsonb_agg(extract(epoch from a.data_interval_start) / 3600 order by a.data_interval_start)
                 from accepted_intervals a where a.export_id = e.id and a.superseded_by is not null), '[]') as superseded,
              coalesce((select jsonb_agg(jsonb_build_object('hour', extract(epoch from c.data_interval_start) / 3600, 'at', extract(epoch from c.delivered_at) / 3600))
                 from receipts c where c.export_id = e.id), '[]') as done from batch_exports e`,
    );
    const offset = began / hourMs;
    return ids.map((id) => {
      const row = rows.find((one) => one.id === id);
      if (!row) throw new Error('no export');
      const done = new Map(
        row.done.map(({ hour, at }) => [Math.round(hour - offset), at - offset]),
      );
      return { ...row, done, superseded: row.superseded.map((hour) => hour - offset) };
    });
  }

  return { play, lane, close: () => lane.close() };
}

/** A process that dies with its run ends it as the worker that watches it does. */
async function fail(context: Context, run: ClaimedRun, error: SluiceError): Promise<void> {
  if (error.code === 'run.crashed') await quarantineRun(context, run, 'SIGSEGV.');
  else await recordFault(context, run, error, Math.random());
}

function mutated(real: Database, { text, becomes }: Mutant): Database {
  let met = false;
  const edit = (sql: Sql): Sql => ({
    query: (statement, values) => {
      const changed = statement.replace(text, becomes);
      met ||= changed !== statement;
      return sql.query(changed, values);
    },
  });
  const { query } = edit(real);
  return Object.assign(Object.create(real) as Database, {
    query,
    transaction: <T>(work: (tx: Sql) => Promise<T>) => real.transaction((tx) => work(edit(tx))),
    isMet: () => met,
  });
}

/** @returns undoes it */
async function changeFunction(
  sql: Sql,
  { of, text, becomes }: Mutant,
): Promise<() => Promise<void>> {
  const [row] = await sql.query<{ source: string }>(
    `select pg_get_functiondef($1::regprocedure) as source`,
    [of],
  );
  const source = row?.source ?? '';
  const changed = source.replace(text, becomes);
  if (changed === source) throw new Error(`the mutant fits nothing in ${of}`);
  await sql.query(changed);
  return async () => {
    await sql.query(source);
  };
}
