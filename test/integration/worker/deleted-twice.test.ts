import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import {
  endRemoval,
  findTeamsWithRemovals,
  forgetLeftoverFiles,
  listReplacedFiles,
  takeRemoval,
} from '../../../src/state/store/files/leftover-files.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { removeFiles } from '../../../src/service/worker/remove-files.ts';
import { keysUnder, recordingJournal } from '../../conformance/destination-suite.ts';
import { beginCommit } from '../../support/run-verbs.ts';
import { openStore } from '../../support/s3-destination.ts';
import { useRunSide } from '../../support/run-side.ts';
import { useEach } from '../../support/use-stage.ts';

const side = useRunSide();
const signal = new AbortController().signal;
const manifestKey = 'manifest.json';
const key = 'p/first.jsonl';
const late = 'p/late.jsonl';

const store = useEach(openStore);

async function firstAttempt(): Promise<ClaimedRun> {
  const { id } = await side.exportWithRuns(1);
  return side.claim((await side.firstRun(id)).id);
}

async function begin(run: ClaimedRun, keys: readonly string[]): Promise<void> {
  const { fileGeneration: generation } = run;
  const commit = { generation, destinationVersion: 0, manifestKey, keys: [...keys, manifestKey] };
  expect(await beginCommit(side.db, run, 60_000, {}, commit)).toBe(true);
}

/** A commit that named two files began and failed; the next attempt has committed others. */
async function afterALostCommit(): Promise<ClaimedRun> {
  const first = await firstAttempt();
  await begin(first, [key, late]);
  await put(first, key);
  await recordFault(side.context, first, new SluiceError('destination.unavailable'), 0);
  const second = await side.claim(first.runId);
  await begin(second, []);
  await side.complete(second);
  return second;
}

/** As an attempt of the export puts a file. */
async function put({ exportId: owner }: ClaimedRun, key: string): Promise<void> {
  const { journal } = recordingJournal();
  const options = { key, contentType: 'text/plain', owner };
  const writer = await store.destination.createFile(options, journal);
  await writer.write(Buffer.from('rows'));
  await writer.complete();
}
const keys = () => keysUnder(store.destination, '');

/** @returns what was logged */
async function remove(run: ClaimedRun, outcome = 'all'): Promise<readonly string[]> {
  const logged: string[] = [];
  const generation = run.fileGeneration;
  const current = { ...run, generation, manifestKey };
  const log = (_level: string, message: string) => void logged.push(message);
  expect(await removeFiles(side.context, store.destination, current, log, signal)).toBe(outcome);
  return logged;
}

const onRecord = ({ exportId }: ClaimedRun) =>
  side.sql.values`select key from leftover_files where export_id = ${exportId} order by key`;

async function anHourLater(): Promise<void> {
  await side.sql`
    update leftover_files
      set deleted_at = deleted_at - interval '61 minutes', tried_at = tried_at - interval '61 minutes'`;
  await side.sql`update runs set finished_at = finished_at - interval '61 minutes'`;
}

describe('a file of a commit that was never confirmed', () => {
  it('is deleted, and once more an hour later: its put may have been on its way', async () => {
    const run = await afterALostCommit();
    expect(await remove(run)).toEqual([`Removed what was replaced: ${key}, ${late}.`]);
    expect(await keys()).toEqual([]);
    expect(await onRecord(run)).toEqual([key, late]);
    await put(run, late);
    expect(await remove(run)).toEqual([]);
    // As after a removal that was cut short.
    await endRemoval(side.db, run, true);
    expect(await findTeamsWithRemovals(side.db, 100)).not.toContain(run.teamId);
    expect(await keys()).toEqual([late]);
    await anHourLater();
    expect(await findTeamsWithRemovals(side.db, 100)).toContain(run.teamId);
    expect(await takeRemoval(side.db, run.teamId)).toMatchObject({ runId: run.runId });
    expect(await remove(run)).toEqual([]);
    expect(await keys()).toEqual([]);
    expect(await onRecord(run)).toEqual([]);
  });

  it('stays on record although two sweeps delete it at the same moment', async () => {
    const run = await afterALostCommit();
    await remove(run);
    await forgetLeftoverFiles(side.db, run, [key, late]);
    expect(await onRecord(run)).toEqual([key, late]);
  });

  it('counts as removed once it is deleted, and stops no later commit', async () => {
    const run = await afterALostCommit();
    await remove(run);
    expect(await listReplacedFiles(side.db, run.exportId, null, 10)).toEqual([]);
    expect(await rerun(run)).toMatchObject({ mayBeOvertaken: false, fileGeneration: 3 });
  });
});

const rerun = async (run: ClaimedRun) => side.claim(await side.retry(run));

describe('an object that this export did not write', () => {
  const denied = { status: 403, code: 'AccessDenied' };

  it.each([
    ['another program', undefined, 'does not remove files that this export did not write'],
    ['another export', '00000000-0000-4000-8000-00000000000f', 'did not write'],
  ])('stays, though a refused commit noted its key: of %s', async (_, owner, text) => {
    const run = await afterALostCommit();
    await store.destination.deleteFiles([key]);
    await put({ ...run, exportId: owner } as ClaimedRun, key);
    expect((await remove(run)).join()).toContain(text);
    expect(await keys()).toEqual([key]);
  });

  it('stays if the credentials cannot read whose it is, and so does its record', async () => {
    const run = await afterALostCommit();
    store.fault('HeadObject', denied, { times: 100 });
    store.fault('GetObject', denied, { times: 100 });
    expect((await remove(run, 'failed')).join()).toMatch(
      /Grant the credentials of the export s3:GetObject, s3:PutObject and s3:DeleteObject/,
    );
    store.server.faults.clear();
    expect(await keys()).toEqual([key]);
    expect(await onRecord(run)).toEqual([key, late]);
    await remove(run);
    expect(await keys()).toEqual([]);
  });
});

describe('a file that a later commit has replaced', () => {
  /** @param wait between the two commits */
  async function replaced(wait: () => Promise<void>): Promise<ClaimedRun> {
    const first = await firstAttempt();
    await side.complete(first);
    await wait();
    const second = await rerun(first);
    await begin(second, []);
    await side.complete(second);
    // As the completion notes it.
    await side.sql`
      insert into leftover_files (export_id, data_interval_start, data_interval_end, destination_version, key,
        generation, manifest_key, uncommitted)
       select export_id, data_interval_start, data_interval_end, 0, ${key}, 1, ${manifestKey}, false from runs
         where id = ${first.runId}`;
    return second;
  }

  it('is deleted twice if it is new: a second copy of its put may be on its way', async () => {
    const run = await replaced(async () => {});
    await remove(run);
    expect(await onRecord(run)).toEqual([key]);
  });

  it('is deleted once if it is an hour old', async () => {
    const run = await replaced(anHourLater);
    await remove(run);
    expect(await onRecord(run)).toEqual([]);
  });
});
