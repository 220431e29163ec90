import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import {
  listStillUnderWay,
  listUnderWay,
} from '../../../src/state/store/intervals/interval-runs.ts';
import { appendLogEntries, countQuotes } from '../../../src/state/store/exports/log-entries.ts';
import { listUnfinishedCommits } from '../../../src/state/store/files/unfinished-commits.ts';
import { eraseIntervals, openErased } from '../../../src/service/use-cases/runs/erase-intervals.ts';
import {
  quarantineRun,
  recordFault,
  releaseRun,
} from '../../../src/service/use-cases/runs/finish-run.ts';
import { recordManifest } from '../../support/record-manifest.ts';
import { hourMs, useRunSide } from '../../support/run-side.ts';
import { beginCommit } from '../../support/run-verbs.ts';

const side = useRunSide();
const interval = { start: 0, end: hourMs };
const erased = { column: 'distinct_id', value: 'user 42, the person' };

/** An order to erase the hour of an export. @returns the id of its run */
async function erase(exportId: string): Promise<string> {
  const request = randomUUID();
  const [runId = ''] = await eraseIntervals(side.context, exportId, [interval], erased, request);
  return runId;
}

/** The run has committed its manifest. */
const commit = (run: ClaimedRun, rows = 8) =>
  recordManifest(side.context, run, { manifestKey: 'm.json', manifestEtag: `"${rows}"`, rows });

/** A run of an hour, recorded. @returns the id of its export */
async function exported(): Promise<string> {
  const { id } = await side.createExport();
  const made = await erase(id);
  await side.sql`update runs set purpose = 'whole', erases = null where id = ${made}`;
  await commit(await side.claim(made), 9);
  return id;
}

async function erasing(): Promise<{ exportId: string; run: ClaimedRun }> {
  const exportId = await exported();
  return { exportId, run: await side.claim(await erase(exportId)) };
}

const failure = new SluiceError('run.rows_rejected', 'a row');

it.each<[string, (run: ClaimedRun) => Promise<unknown>]>([
  ['completes', commit],
  ['fails', (run) => recordFault(side.context, run, failure, 0)],
  ['crashes', (run) => quarantineRun(side.context, run, 'It crashed.')],
  ['is cancelled', (run) => side.cancel(run)],
])(
  'a run that %s forgets what it was to erase; until then only its worker can read it',
  async (_, end) => {
    const { run } = await erasing();
    expect(openErased(side.context, run)).toEqual(erased);
    await releaseRun(side.context, run);
    const again = await side.claim(run.runId);
    expect(openErased(side.context, again)).toEqual(erased);
    expect(await mentions(run.exportId)).toBe(0);
    await end(again);
    const [row] = await side.sql<{ status: string; erases: Buffer | null }>`
      select status, erases from runs where id = ${run.runId}`;
    expect(['Starting', 'Running']).not.toContain(row?.status);
    expect(row?.erases).toBeNull();
    expect(await mentions(run.exportId)).toBe(0);
  },
);

it('a run that has forgotten what it was to erase is not retried, and its error says what to do', async () => {
  const { run } = await erasing();
  await recordFault(side.context, run, failure, 0);
  expect((await side.findRun(run)).latestError).toMatch(/run the command of the erasure again\.$/);
  await expect(side.retry(run)).rejects.toThrow('the command of the erasure again');
});

/** Rows of our tables that have the value as text. */
const mentions = (exportId: string) =>
  side.sql.value`
    select (select count(*) from runs t where t.export_id = ${exportId} and t::text like '%user 42%')
          + (select count(*) from outbox t where t.export_id = ${exportId} and t::text like '%user 42%')
          + (select count(*) from log_entries t where t.export_id = ${exportId} and t::text like '%user 42%')`;

it('an ended run cannot keep it, whatever ends it', async () => {
  const { run } = await erasing();
  const ends = side.sql`
    update runs set status = 'Failed', finished_at = now(), lease_holder = null, lease_expires_at = null
      where id = ${run.runId}`;
  await expect(ends).rejects.toThrow(/runs_erases_while_live/);
});

it('an erasure says nothing of the schedule: its failures do not pause, its success is no export', async () => {
  const { exportId, run } = await erasing();
  await side.sql`
    update batch_exports set failure_streak = 3, last_success_at = '2024-01-01' where id = ${exportId}`;
  const facts = () =>
    side.sql`select failure_streak as streak, last_success_at = '2024-01-01' as "isOld"
      from batch_exports where id = ${exportId}`;
  await recordFault(side.context, run, failure, 0);
  expect(await facts()).toEqual([{ streak: 3, isOld: true }]);
  await commit(await side.claim(await erase(exportId)));
  expect(await facts()).toEqual([{ streak: 3, isOld: true }]);
});

it('never counts as a small run: it reads files', async () => {
  const exportId = await exported();
  const runId = await erase(exportId);
  const small = () =>
    side.sql<{ small: boolean }>`select small from outbox where run_id = ${runId}`;
  expect(await small()).toEqual([{ small: false }]);
  await releaseRun(side.context, await side.claim(runId));
  expect(await small()).toEqual([{ small: false }]);
});

async function commitBegun(run: ClaimedRun): Promise<void> {
  const { fileGeneration: generation, destinationVersion } = run;
  const keys = { generation, destinationVersion, manifestKey: 'm.json', keys: ['a', 'm.json'] };
  expect(await beginCommit(side.db, run, 60_000, { generation }, keys)).toBe(true);
}

it('a run that began to commit is waited for until it ends, whichever attempt has it', async () => {
  const { exportId, run } = await erasing();
  const before = await listUnderWay(side.db, exportId);
  expect(before.map(({ runId }) => runId)).toEqual([run.runId]);
  // Another attempt reads anew, so what the first had read is lost.
  await releaseRun(side.context, run);
  expect(await listUnderWay(side.db, exportId)).toEqual([]);
  const second = await side.claim(run.runId);
  expect(await listStillUnderWay(side.db, before)).toEqual([]);
  const attempt = await listUnderWay(side.db, exportId);
  await commitBegun(second);
  // It waits for its next attempt, which adopts what may be current.
  await releaseRun(side.context, second);
  expect(await listUnderWay(side.db, exportId)).toMatchObject([{ runId: run.runId }]);
  expect(await listStillUnderWay(side.db, attempt)).toMatchObject([{ runId: run.runId }]);
  const third = await side.claim(run.runId);
  expect(await listStillUnderWay(side.db, attempt)).toMatchObject([{ runId: run.runId, interval }]);
  await commit(third);
  expect(await listStillUnderWay(side.db, attempt)).toEqual([]);
});

it('an interval is unfinished if a run began to commit and ended unrecorded, until a later commit', async () => {
  const { exportId, run } = await erasing();
  const unfinished = () => listUnfinishedCommits(side.db, exportId, null);
  await commitBegun(run);
  expect(await unfinished()).toEqual([]);
  await recordFault(side.context, run, failure, 0);
  expect(await unfinished()).toEqual([{ interval, hasReceipt: true }]);
  expect(await listUnfinishedCommits(side.db, exportId, hourMs)).toEqual([]);
  const again = await side.claim(await erase(exportId));
  expect(again.mayBeOvertaken).toBe(true);
  await commit(again);
  expect(await unfinished()).toEqual([]);

  const { id: other } = await side.createExport();
  const lost = await side.claim(await erase(other));
  await commitBegun(lost);
  await recordFault(side.context, lost, failure, 0);
  expect(await listUnfinishedCommits(side.db, other, null)).toEqual([
    { interval, hasReceipt: false },
  ]);
  expect(await listUnfinishedCommits(side.db, randomUUID(), null)).toEqual([]);
});

it('a run that has ended names no key, which may have the value of a folder', async () => {
  const { run } = await erasing();
  const key = 'p/name=Jane Doe/a.jsonl';
  const commit = { generation: run.fileGeneration, manifestKey: 'm.json' };
  const keys = { ...commit, destinationVersion: run.destinationVersion, keys: [key] };
  const begun = { begunManifests: ['d'] };
  expect(await beginCommit(side.db, run, 60_000, begun, keys)).toBe(true);
  const stored = () => side.sql`select commit_intent as intent from runs where id = ${run.runId}`;
  expect(await stored()).toMatchObject([{ intent: { files: [{ key }] } }]);
  await recordFault(side.context, run, failure, 0);
  // Runs of the interval still recognise the manifest that may be current.
  expect(await stored()).toEqual([{ intent: { ...commit, ...begun } }]);
});

it('no log names the value of a folder, not even that the folder went', async () => {
  const { exportId, run } = await erasing();
  const message = 'Removed what was replaced: p/name=Jane Doe/day=2024-03-01/a.jsonl.';
  await appendLogEntries(side.db, [{ ...run, exportId, level: 'INFO', message }]);
  const logged = await side.sql`
    select message from log_entries where export_id = ${exportId} and message like 'Removed%'`;
  expect(logged).toEqual([{ message: 'Removed what was replaced: p/name=…/day=…/a.jsonl.' }]);
});

it('counts the logs and errors that quote a value, as it is or within JSON, and no part of another', async () => {
  const { exportId, run } = await erasing();
  const { teamId, runId } = run;
  const say = (message: string) =>
    ({ teamId, exportId, runId, level: 'WARNING', message }) as const;
  await appendLogEntries(side.db, [
    say('The first: {"id":"a \\"b\\" [c]"}'),
    say('The first keys: a "b" [c]/7'),
    say('17 rows, 70 %'),
  ]);
  await side.sql`update runs set latest_error = ${'key 7 is odd'} where id = ${runId}`;
  expect(await countQuotes(side.db, exportId, 'a "b" [c]')).toBe(2);
  expect(await countQuotes(side.db, exportId, '7')).toBe(2);
  expect(await countQuotes(side.db, exportId, 'a "b" [d]')).toBe(0);
  // The same error elsewhere.
  await side.sql`
    with checked as (insert into export_checks (export_id, detail) values (${exportId}, 'key 7')
      on conflict (export_id) do update set detail = 'key 7'),
       changed as (insert into activity (subject_type, subject_id, action, changes) values ('batch_export',
         ${exportId}::text, 'changed', '[{"after":"x = ''7''"}]'))
     update batch_exports set failing_error = 'key 7', paused_reason = 'key 7' where id = ${exportId}`;
  expect(await countQuotes(side.db, exportId, '7')).toBe(6);
});
