import { beforeAll, describe, expect, it } from 'vitest';
import type { Timestamp } from '../../../src/foundation/domain/time.ts';
import { dispatchRuns } from '../../../src/service/admission/admission.ts';
import { applyRetention } from '../../../src/service/use-cases/installation/apply-retention.ts';
import { decideTicks } from '../../../src/service/use-cases/runs/decide-ticks.ts';
import type { Sql, Transactor } from '../../../src/state/store/database/database.ts';
import { readServiceState } from '../../../src/state/store/database/service-state.ts';
import { listActivity } from '../../../src/state/store/exports/activity.ts';
import { findAdvancing, planFreePages } from '../../../src/state/store/exports/backfills.ts';
import { averageOfRuns, insertBackfill } from '../../../src/state/store/exports/backfills.ts';
import {
  countExportHealths,
  findBatchExports,
  findExportDetails,
} from '../../../src/state/store/exports/export-lists.ts';
import {
  listLogEntries,
  type LogListRequest,
} from '../../../src/state/store/exports/log-entries.ts';
import { findTeamsWithRemovals } from '../../../src/state/store/files/leftover-files.ts';
import { findTeamsToLookAt } from '../../../src/state/store/files/upload-places.ts';
import {
  findCoverage,
  findFirstTick,
  findHoles,
  findOldestInterval,
} from '../../../src/state/store/intervals/coverage.ts';
import { takeLookBacks } from '../../../src/state/store/intervals/look-backs.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { beginFreeCommits, completeFree } from '../../../src/state/store/runs/completions.ts';
import { claimFree } from '../../../src/state/store/runs/claims.ts';
import { renewLeases, sweepExpiredLeases } from '../../../src/state/store/runs/leases.ts';
import { findRunNeeds } from '../../../src/state/store/runs/outbox.ts';
import { cancelRuns, listRuns } from '../../../src/state/store/runs/runs.ts';
import { completedRun } from '../../support/completed-run.ts';
import { fillHistory } from '../../support/history.ts';
import { claim, complete, hourMs, openRunSide } from '../../support/run-side.ts';
import { type PlanMode, type WatchedPlan, watchPlans } from '../../support/watched-plans.ts';
import { useStage } from '../../support/use-stage.ts';

/** The tables that grow with history. Scans of all others cost what is alive now. */
const historic = new Set(['runs', 'log_entries', 'receipts', 'ticks', 'activity']);

/** A million runs and ten million log entries; a slow machine may try fewer exports. */
const exports = Number(process.env.GROWTH_EXPORTS ?? 10_000);
const size = { teams: 2_000, exports, runsPerExport: 98, longExportRuns: 20_000, logsPerRun: 10 };
let long: string;

const side = useStage(() => openRunSide({ maxJitterSeconds: 0 }));
beforeAll(async () => {
  long = await fillHistory(side.admin, size);
}, 1_800_000);

const runList = {
  ...{ statuses: null, createdAfter: null, createdBefore: null, intervalStart: null },
  ...({ intervalEnd: null, orderBy: 'created_at', descending: true } as const),
  ...{ position: null, limit: 100 },
};

const logList: Omit<LogListRequest, 'exportId'> = {
  ...{ runId: null, levels: null, after: null, before: null, search: null },
};
const fourBriefly = { limit: 4, without: [], slow: [], isLong: false };
const page = { limit: 100, offset: 0 };

async function findEnded(exportId: string): Promise<{ id: string; interval: Timestamp }> {
  const [run] = await side.sql<{ id: string; interval: Timestamp }>`
    select id, data_interval_start as interval from runs where export_id = ${exportId} and status = 'Completed'
      order by created_at desc offset 500 limit 1`;
  if (!run) throw new Error('the export has no run');
  return run;
}

/** The project of the export with the longest history. */
async function reachOfLong(db: Sql): Promise<{ organizationId: string; teamId: number }> {
  const [row] = await db.query<{ organizationId: string; teamId: number }>(
    `select p.organization_id as "organizationId", p.id as "teamId" from projects p
      where p.id = (select team_id from batch_exports where id = $1)`,
    [long],
  );
  if (!row) throw new Error('the export has no project');
  return row;
}

/** Ranges of backfills so far: none overlaps another. */
let weeks = 0;

interface HotPath {
  readonly name: string;
  readonly work: (db: Transactor) => Promise<unknown>;
  /** Rows and pages that one of its statements may look at; default 2,000. */
  readonly most?: number;
  /** Its statements have no names, so the server always plans them with their values. */
  readonly isUnnamed?: boolean;
}

const hotPaths: readonly HotPath[] = [
  {
    name: 'decide ticks',
    work: (db) =>
      decideTicks({ ...side.context, db }, { onError: (error) => expect.fail(String(error)) }),
    most: 20_000,
  },
  // Each run that it enqueues is written.
  {
    name: 'dispatch',
    work: (db) => dispatchRuns({ ...side.context, db }, async () => {}),
    most: 5_000,
  },
  {
    name: 'claim and complete',
    work: async (db) => {
      const waiting = await side.sql.value<string>`
        select id from runs where status = 'Starting' order by id limit 1`;
      const run = await claim({ db: { ...db, close: async () => {} } }, waiting ?? '');
      await renewLeases(db, [run], 60_000);
      expect(await complete({ ...side.context, db }, run)).toBe(true);
    },
  },
  {
    name: 'need, claim and record many runs',
    work: async (db) => {
      const runIds = await side.sql.values<string>`
        select id from runs where status = 'Starting' limit 50`;
      expect(runIds.length).toBeGreaterThan(10);
      expect(await findRunNeeds(db, runIds)).not.toContain(null);
      const requests = runIds.map((runId) => ({ runId, holder: runId }));
      const runs = (await claimFree(db, requests, 60_000)).filter((run) => run !== null);
      expect(runs).toHaveLength(runIds.length);
      const commits = runs.map((run) => {
        const files = [{ key: `${run.runId}.jsonl` }];
        const [generation, manifestKey] = [run.fileGeneration, `${run.runId}.json`];
        return { run, intent: { generation, manifestKey, files, rejectedFiles: [] } };
      });
      expect(new Set(await beginFreeCommits(db, commits, 60_000))).toEqual(new Set([true]));
      const ends = runs.map((run) => completedRun(run));
      const completed = await completeFree(db, ends);
      expect(completed.filter((one) => one?.isCompleted)).toHaveLength(runs.length);
    },
    // Per run about 30.
    most: 5_000,
  },
  {
    name: 'the next page of a backfill',
    work: async (db) => {
      const { teamId } = await reachOfLong(db);
      weeks += 1;
      const start = Date.parse('1999-01-04T00:00Z') + weeks * 168 * hourMs;
      const range = { start, end: start + 168 * hourMs };
      const backfillId = await insertBackfill(side.db, {
        ...{ exportId: long, teamId, range, order: 'oldest_first', reprocess: 'all' },
        ...{ dropsMissing: false, concurrency: 50, totalRuns: 168 },
      });
      expect(await findAdvancing(db, [backfillId])).toMatchObject([{ liveRuns: 0 }]);
      const runs = Array.from({ length: 50 }, (_, hour) => ({
        ...{ exportId: long, teamId, backfillId },
        interval: { start: range.start + hour * hourMs, end: range.start + (hour + 1) * hourMs },
      }));
      const plannedTo = range.start + 49 * hourMs;
      const planned = { backfillId, after: null, plannedTo, intervals: 50, runs };
      expect(await planFreePages(db, [planned])).toEqual([50]);
    },
    // Fifty runs with their entries; each is compared with its neighbours.
    most: 2_500,
  },
  { name: 'sweep leases', work: sweepExpiredLeases },
  { name: 'sweep uploads', work: (db) => findTeamsToLookAt(db, 100) },
  { name: 'sweep files', work: (db) => findTeamsWithRemovals(db, 100) },
  // It looks at each interval that is unsettled now: the newest one of each tenth export.
  {
    name: 'look back at what is unsettled',
    work: (db) => takeLookBacks(db, { lateLookbackHours: 0, modelLookbackHours: {} }, fourBriefly),
    // Each is read with its export, whose hours count.
    most: 3 * size.exports,
  },
  // Of the two newest intervals of each export.
  {
    name: 'look back at two hours',
    work: (db) => takeLookBacks(db, { lateLookbackHours: 2, modelLookbackHours: {} }, fourBriefly),
    most: 20 * size.exports,
  },
  { name: 'cancel', work: (db) => cancelRuns(db, { exportId: long }) },
  { name: 'list runs', work: (db) => listRuns(db, { ...runList, exportId: long }) },
  {
    name: 'list runs from a position',
    work: async (db) => {
      const { id, interval } = await findEnded(long);
      const position = { direction: 'next', at: interval, id } as const;
      await listRuns(db, { ...runList, exportId: long, position });
    },
  },
  // No run was cancelled. Only an index of the status shows that without a look at all others.
  ...(['created_at', 'data_interval_start'] as const).map((orderBy) => ({
    name: `list runs that did not succeed by ${orderBy}`,
    work: async (db: Transactor) => {
      const ofLong = { ...runList, exportId: long, orderBy };
      await listRuns(db, { ...ofLong, statuses: ['Cancelled'] });
      await listRuns(db, { ...ofLong, statuses: ['Failed', 'FailedRetryable', 'Cancelled'] });
    },
    // Each run of the page with the receipt of its interval.
    most: 500,
  })),
  {
    name: 'list runs that are alive',
    work: (db) => listRuns(db, { ...runList, exportId: long, statuses: ['Starting', 'Running'] }),
    most: 400,
  },
  {
    name: 'list runs of a week',
    work: (db) =>
      listRuns(db, {
        ...runList,
        exportId: long,
        orderBy: 'data_interval_start',
        intervalStart: { spanBack: '7 days' },
      }),
  },
  // The count is exact: an index has the entries of the export.
  {
    name: 'list logs',
    work: (db) => listLogEntries(db, { ...logList, exportId: long }, page),
    most: 2 * size.longExportRuns * size.logsPerRun,
  },
  {
    name: 'list logs of a run',
    work: async (db) => {
      const { id } = await findEnded(long);
      const ofRun = { ...logList, exportId: long, runId: id, levels: ['INFO', 'ERROR'] as const };
      await listLogEntries(db, ofRun, page);
    },
  },
  {
    name: 'list warnings and errors',
    work: (db) =>
      listLogEntries(db, { ...logList, exportId: long, levels: ['WARNING', 'ERROR'] }, page),
    most: size.longExportRuns * size.logsPerRun,
  },
  {
    name: 'coverage of a month',
    work: async (db) => {
      const end = Math.floor((await readNow(db)) / hourMs) * hourMs;
      await findCoverage(db, long, { start: end - 720 * hourMs, end });
    },
  },
  { name: 'holes', work: (db) => findHoles(db, long) },
  ...(['health', 'last_run', 'name'] as const).map((orderBy) => ({
    name: `exports by ${orderBy}`,
    work: async (db: Transactor) => {
      const reach = await reachOfLong(db);
      const all = { healths: null, search: null, orderBy, descending: false };
      await findBatchExports(db, reach, all, page);
      await findBatchExports(db, reach, { ...all, healths: ['late'], search: '1' }, page);
    },
    isUnnamed: true,
  })),
  {
    name: 'exports per health',
    work: async (db) => {
      const reach = await reachOfLong(db);
      await countExportHealths(db, reach);
      await countExportHealths(db, { ...reach, teamId: null });
    },
  },
  { name: 'the oldest interval', work: (db) => findOldestInterval(db, long) },
  { name: 'the first tick', work: (db) => findFirstTick(db, long) },
  { name: 'average rows', work: (db) => averageOfRuns(db, long), isUnnamed: true },
  { name: 'details of a page', work: (db) => findExportDetails(db, [long]) },
  {
    name: 'activity',
    work: (db) => listActivity(db, { subjectType: 'batch_export', subjectId: long }, page),
  },
  // Each export, and what waits.
  { name: 'metrics of the service', work: readServiceState, most: 2 * size.exports },
];

function describePlans(plans: readonly WatchedPlan[]): string {
  return plans
    .map(
      ({ text, scanned, rows, pages, nodes }) =>
        `${rows} rows, ${pages} pages, scans ${scanned.join(', ') || 'nothing'}: ${text}\n${nodes}`,
    )
    .join('\n\n');
}

describe.each<PlanMode>(['force_custom_plan', 'force_generic_plan'])('%s', (mode) => {
  const paths = hotPaths.filter(({ isUnnamed }) => !(isUnnamed && mode === 'force_generic_plan'));
  it.each(paths)('$name: no statement scans history', async ({ work, most = 2_000 }) => {
    const plans = await watchPlans(side.adminUrl, mode, work);
    expect(plans.length).toBeGreaterThan(0);
    const bad = plans.filter(
      ({ scanned, rows, pages }) =>
        rows > most || pages > most || scanned.some((table) => historic.has(table)),
    );
    expect(describePlans(bad)).toBe('');
  });
});

it('retention with nothing old: looks at little', async () => {
  const context = side.withPolicy({ retentionDays: 3_650, logRetentionDays: 3_650 });
  const plans = await watchPlans(side.adminUrl, 'force_generic_plan', (db) =>
    applyRetention({ ...context, db }),
  );
  const bad = plans.filter(
    ({ scanned, rows }) => rows > 25_000 || scanned.some((table) => historic.has(table)),
  );
  expect(describePlans(bad)).toBe('');
});
