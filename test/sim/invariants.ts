/** What must hold after every action, and what must have come true once the faults are over. */

import { isTerminal, type RunPurpose, type RunStatus } from '../../src/foundation/domain/run.ts';
import type { DataInterval, Instant } from '../../src/foundation/domain/time.ts';
import type { Sql } from '../../src/state/store/database/database.ts';
import { listRunningBackfills } from '../../src/state/store/exports/backfills.ts';
import {
  findGaps,
  findOverlaps,
  findTornTicks,
} from '../../src/state/store/intervals/verify-queries.ts';
import { findLostRuns } from '../support/lost-runs.ts';
import { advanceBackfill } from '../support/run-verbs.ts';
import { keyOf } from './attempt.ts';
import { type Rows, rowsOf } from './source.ts';
import { act, passTime, type World } from './world.ts';

interface Row {
  readonly exportId: string;
  readonly start: Instant;
  readonly end: Instant;
}

interface Record {
  readonly exports: readonly {
    readonly id: string;
    readonly mark: Instant | null;
    readonly paused: boolean;
  }[];
  readonly ticks: readonly (Row & { tickAt: Instant; fate: string; runId: string | null })[];
  readonly runs: readonly (Row & {
    id: string;
    backfillId: string | null;
    status: RunStatus;
    fence: number;
    attempt: number;
    fileGeneration: number | null;
    rows: number | null;
    dropsMissing: boolean;
    purpose: RunPurpose;
    hasLeaseWithoutWorker: boolean;
  })[];
  readonly receipts: readonly (Row & {
    runId: string;
    etag: string;
    rows: number;
    waits: boolean;
  })[];
  readonly backfills: readonly (Row & { id: string })[];
}

const ms = (column: string) => `floor(extract(epoch from ${column}) * 1000)::bigint`;
const row = `'exportId', export_id, 'start', ${ms('data_interval_start')}, 'end', ${ms('data_interval_end')}`;
const all = (fields: string, from: string) =>
  `(select coalesce(json_agg(json_build_object(${fields})), '[]') from ${from})`;
const wholeRecord = `select
  ${all(`'id', id, 'mark', ${ms('high_water_mark')}, 'paused', paused and paused_reason is null`, 'batch_exports')} as exports,
  ${all(`${row}, 'tickAt', ${ms('tick_at')}, 'fate', fate, 'runId', run_id`, '(select * from ticks order by export_id, tick_at) t')} as ticks,
  ${all(`${row}, 'id', id, 'backfillId', backfill_id, 'status', status, 'fence', fence, 'attempt', attempt, 'fileGeneration', file_generation, 'rows', records_completed, 'dropsMissing', drops_missing, 'purpose', purpose, 'hasLeaseWithoutWorker', status = 'Running' and lease_holder is null and lease_expires_at is not null`, '(select * from runs order by id) r')} as runs,
  ${all(`${row}, 'runId', run_id, 'etag', manifest_etag, 'rows', rows, 'waits', late_rows_wait is not null`, '(select * from receipts order by export_id, data_interval_start) c')} as receipts,
  ${all(`'exportId', export_id, 'id', id, 'start', ${ms('start_at')}, 'end', ${ms('end_at')}`, "backfills where status = 'Completed'")} as backfills`;

/** Without the faults of the lane's database. */
const sqlOf = ({ lane }: World): Sql => ({
  query: async (text, values = []) => (await lane.sim.pool.query(text, [...values])).rows,
});

async function readRecord({ lane }: World): Promise<Record> {
  const { rows } = await lane.sim.pool.query<Record>({ name: 'record', text: wholeRecord });
  if (!rows[0]) throw new Error('no row');
  return rows[0];
}

/** Remembers what may only rise. */
export interface Witness {
  readonly fences: Map<string, number>;
  readonly marks: Map<string, Instant>;
  readonly ended: Map<string, RunStatus>;
  readonly attempts: Map<string, number>;
  /** By interval: generations that attempts had. */
  readonly given: Map<string, Set<number>>;
  /** By export: the start of the first tick that ran. Retention deletes ticks. */
  readonly firstRan: Map<string, Instant>;
  readonly ticks: Map<string, Record['ticks'][number]>;
  /** As they were seen last. */
  readonly runs: Map<string, Record['runs'][number]>;
  /** By interval: the rows that its manifest has delivered. */
  readonly delivered: Map<string, Rows>;
}

export function createWitness(): Witness {
  return {
    fences: new Map(),
    marks: new Map(),
    ended: new Map(),
    attempts: new Map(),
    given: new Map(),
    firstRan: new Map(),
    ticks: new Map(),
    runs: new Map(),
    delivered: new Map(),
  };
}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

/** I1, I2: ticks tile. I5: fences rise, no two attempts share one, what is over stays as it is. */
export async function checkAlways(world: World, witness: Witness): Promise<void> {
  const { exports, ticks, runs } = await readRecord(world);
  world.exportIds.forEach((id, index) => {
    const own = ticks.filter((tick) => tick.exportId === id);
    const ran = own.find(({ fate }) => fate === 'ran');
    if (ran && !witness.firstRan.has(id)) witness.firstRan.set(id, ran.start);
    // Retention deletes the oldest ticks, and no others.
    let expected = Math.max(world.firstTickStarts[index] ?? 0, own[0]?.start ?? 0);
    for (const { start, end, tickAt } of own) {
      must(start === expected, `I1 I2: export ${index} has a gap or overlap at ${tickAt}`);
      must(end === tickAt && tickAt > start, `I1: bad interval at ${tickAt}`);
      expected = end;
    }
  });
  for (const { id, mark } of exports) {
    const before = witness.marks.get(id) ?? Number.NEGATIVE_INFINITY;
    must((mark ?? Number.NEGATIVE_INFINITY) >= before, 'the high-water mark went back');
    if (mark !== null) witness.marks.set(id, mark);
  }
  for (const run of runs) {
    must(run.fence >= (witness.fences.get(run.id) ?? 0), `I5: the fence of run ${run.id} fell`);
    witness.fences.set(run.id, run.fence);
    checkGeneration(run, witness);
    must(!run.hasLeaseWithoutWorker, `run ${run.id} has a lease without a worker`);
    const ended = witness.ended.get(run.id);
    must(ended === undefined || ended === run.status, `I5: run ${run.id} left its end`);
    if (isTerminal(run.status)) witness.ended.set(run.id, run.status);
  }
  for (const tick of ticks) witness.ticks.set(`${tick.exportId} ${tick.tickAt}`, tick);
  const paused = new Set(exports.flatMap(({ id, paused: isPaused }) => (isPaused ? [id] : [])));
  for (const run of runs) {
    const isNew = !witness.runs.has(run.id);
    const isOfPause = isNew && run.purpose === 'supplement' && paused.has(run.exportId);
    must(!isOfPause, `run ${run.id} is of a look-back of a paused export`);
    witness.runs.set(run.id, run);
  }
  checkDelivered(world, witness);
  const lost = await findLostRuns(sqlOf(world), null);
  must(lost.length === 0, `run ${lost[0]?.id}: ${lost[0]?.why}`);
  const held = world.workers.flatMap((one) => (one ? [`${one.run.runId}#${one.run.fence}`] : []));
  must(new Set(held).size === held.length, `I5: two workers hold one fence: ${held.join(' ')}`);
}

/** I9: what a manifest has delivered stays in it, unless a run was asked to drop it. */
function checkDelivered({ bucket }: World, { delivered, runs }: Witness): void {
  for (const [key, { rows, runId }] of bucket.manifests) {
    const gone = (delivered.get(key) ?? []).filter((row) => !rows.includes(row));
    must(
      gone.length === 0 || runs.get(runId)?.dropsMissing === true,
      `I9: ${key} has lost its rows ${gone}`,
    );
    must(new Set(rows).size === rows.length, `I3: ${key} has rows twice: ${rows}`);
    delivered.set(key, rows);
  }
}

/** C2: an attempt writes under a number that no attempt of the interval had. */
function checkGeneration(run: Record['runs'][number], { attempts, given }: Witness): void {
  const key = keyOf(run.exportId, run);
  const ofInterval = given.get(key) ?? new Set();
  const isClaimed = run.attempt > (attempts.get(run.id) ?? 0);
  const { fileGeneration } = run;
  must(
    !isClaimed || fileGeneration === null || !ofInterval.has(fileGeneration),
    `C2: run ${run.id} writes under generation ${fileGeneration} again`,
  );
  attempts.set(run.id, run.attempt);
  if (fileGeneration !== null) given.set(key, ofInterval.add(fileGeneration));
}

const hourMs = 3_600_000;

/** Longer than any lease, backoff and jitter. */
const roundMs = 15 * 60_000;

/** Ends all faults and pauses, and lets every process work, up to the time it is now. Then looks back until no run comes of that. */
export async function settle(world: World): Promise<void> {
  const { db } = world.lane;
  db.failNext('done');
  // What came late during a pause is added after it.
  for (let index = 0; index < world.exportIds.length; index += 1) {
    await act(world, { kind: 'unpause', export: index, backfill: false });
  }
  await act(world, { kind: 'plan', outcome: 'done' });
  for (let looks = 0; looks < 8; looks += 1) {
    if (!(await endRuns(world))) return;
    // A clock that went back delays a look-back until it is as late again.
    await passTime(world, world.latest - world.now + roundMs);
    await act(world, { kind: 'look_back' });
    const live = await db.query('select from runs where finished_at is null');
    if (live.length === 0) return;
  }
  const runs = await db.query('select * from runs where finished_at is null or purpose = $1', [
    'supplement',
  ]);
  throw new Error(`look-backs make runs again and again: ${JSON.stringify(runs)}`);
}

/** @returns whether all have ended; false if for 60 rounds none has */
async function endRuns(world: World): Promise<boolean> {
  const { db, context } = world.lane;
  let ended = 0;
  for (let round = 0; round < 60; round += 1) {
    for (const id of await listRunningBackfills(db)) await advanceBackfill(context, id);
    const [now] = await db.query<{ left: number; ended: number }>(
      `select ((select count(*) from runs where finished_at is null)
             + (select count(*) from backfills where status = 'Running'))::int as left,
              (select count(*) from runs where finished_at is not null)::int as ended`,
    );
    if (now?.left === 0) return true;
    // Days of short intervals take more rounds.
    if (now && now.ended > ended) [ended, round] = [now.ended, 0];
    await act(world, { kind: 'sweep', outcome: 'done' });
    await act(world, { kind: 'dispatch', slots: 16, outcome: 'done' });
    while (world.queue.length > 0) {
      await act(world, { kind: 'deliver', pick: 0, twice: false, outcome: 'done' });
      for (let worker = 0; worker < world.workers.length; worker += 1) {
        await act(world, { kind: 'step', worker, count: 8, outcome: 'done' });
      }
    }
    await passTime(world, roundMs);
  }
  return false;
}

/** Once settled: every run is over, and bucket and record say the same of every interval. */
export async function checkSettled(
  world: World,
  witness: Witness,
): Promise<{ runs: number; completed: number }> {
  const record = await readRecord(world);
  const { receipts } = record;
  // Retention has deleted some.
  const ticks = [...witness.ticks.values()];
  const runs = [...witness.runs.values()];
  for (const run of record.runs) must(isTerminal(run.status), `run ${run.id} never ends`);
  const byId = new Map(runs.map((run) => [run.id, run]));
  const intervalOf = (one: Row) => keyOf(one.exportId, one);
  for (const tick of ticks) {
    const run = byId.get(tick.runId ?? '');
    const isRun = run !== undefined && intervalOf(run) === intervalOf(tick);
    must(isRun === (tick.fate === 'ran'), `the tick at ${tick.tickAt} has no run, or a wrong one`);
  }
  const ran = new Set(ticks.filter(({ fate }) => fate === 'ran').map(intervalOf));
  // A look-back makes runs of intervals that a backfill has exported, too.
  for (const run of runs.filter((one) => one.backfillId === null && one.purpose === 'whole')) {
    must(ran.has(intervalOf(run)), `run ${run.id} has no tick`);
  }
  for (const { id, mark } of record.exports) {
    const first = witness.firstRan.get(id);
    if (first === undefined) continue;
    const completed = receipts.filter((receipt) => receipt.exportId === id);
    must(
      (mark ?? first) === advanceHighWaterMark(first, completed),
      `the high-water mark of export ${id} is not the end of its completed prefix`,
    );
  }
  for (const receipt of receipts) {
    const key = intervalOf(receipt);
    const manifest = world.bucket.manifests.get(key);
    must(manifest !== undefined, `I4: ${key} is Completed and has no manifest`);
    if (manifest === undefined) continue;
    const author = byId.get(manifest.runId);
    // A run that did not complete may have put its manifest last; a re-run replaces it.
    if (author?.status !== 'Completed') continue;
    must(receipt.etag === String(manifest.etag), `I4: ${key} is on record with another manifest`);
    must(author.rows === manifest.snapshot, `I4: ${key} names other rows than its run`);
    // A look-back needs the run of the receipt, which retention may have deleted.
    const isRecent = receipt.end > world.now - 2 * hourMs;
    const isLookedAt =
      isRecent && !receipt.waits && record.runs.some(({ id }) => id === receipt.runId);
    const late = rowsOf(world.source, key).filter((row) => !manifest.rows.includes(row));
    must(!isLookedAt || late.length === 0, `I3: ${key} lacks its rows ${late}`);
  }
  for (const id of world.exportIds) {
    const sql = sqlOf(world);
    const breaches = [
      ...(await findGaps(sql, id)),
      ...(await findTornTicks(sql, id, 1_000)),
      ...(await findOverlaps(sql, id)),
    ];
    must(breaches.length === 0, `I1 I2: ${JSON.stringify(breaches)}`);
  }
  checkBackfills({ ...record, runs });
  const completed = runs.filter(({ status }) => status === 'Completed').length;
  return { runs: runs.length, completed };
}

function checkBackfills({ runs, backfills }: Record): void {
  for (const backfill of backfills) {
    const ends = new Map(
      runs
        .filter(({ exportId }) => exportId === backfill.exportId)
        .map(({ start, end }) => [start, end]),
    );
    for (let at = backfill.start; at < backfill.end; at = ends.get(at) ?? Infinity) {
      must(ends.has(at), `a backfill left out what follows ${at}`);
    }
  }
}

/**
 * The end of the unbroken prefix of completed intervals. It never goes back; intervals beyond a gap
 * do not move it until the gap is closed.
 *
 * @param mark the mark so far; for a new export, the start of its first interval
 * @param completed completed intervals in any order; those before the mark may be left out
 */
function advanceHighWaterMark(mark: Instant, completed: readonly DataInterval[]): Instant {
  let advanced = mark;
  for (const { start, end } of completed.toSorted((a, b) => a.start - b.start)) {
    if (start > advanced) break;
    advanced = Math.max(advanced, end);
  }
  return advanced;
}
