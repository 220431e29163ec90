import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { joinConnectors } from '../../src/main/connectors.ts';
import { listWorkSetAside, retryWork } from '../../src/state/store/files/guarded-work.ts';
import {
  findTeamsToLookAt,
  maxLooks,
  noteUploads,
  takeUploadPlace,
} from '../../src/state/store/files/upload-places.ts';
import { cancelRuns } from '../../src/state/store/runs/runs.ts';
import { type GuardedEnd, WorkGuard } from '../../src/service/use-cases/work-guard.ts';
import { collectUploads, type SweepOptions } from '../../src/service/worker/collect-uploads.ts';
import { contextWith } from '../conformance/destination-suite.ts';
import { type HostileStore, sendXml, startHostileStore } from '../support/hostile-store.ts';
import {
  claim,
  createExportOfThePast,
  decide,
  expireLease,
  firstRun,
  openRunSide,
  type RunSide,
} from '../support/run-side.ts';
import { until } from '../support/until.ts';

/** What the sweep does at a store that hinders it, now and after a restart. */

let side: RunSide;
let store: HostileStore;
/** Aborted after this number of pages, as by a shutdown. */
let pagesUntilStop: number;
let stopping: AbortController;
/** Work that workers have set aside, as `kind id`. */
let setAside: string[];

beforeEach(async () => {
  setAside = [];
  side = await openRunSide();
  pagesUntilStop = Number.POSITIVE_INFINITY;
  stopping = new AbortController();
  store = await startHostileStore((request, response) => {
    const pages = store.requests.length;
    if (pages >= pagesUntilStop) stopping.abort();
    // An endless list: each page begins after the one before.
    if (/prefix=(?:tidy|\.sluice-test)/.test(request.url ?? '')) {
      return sendXml(response, 'ListMultipartUploadsResult', '<IsTruncated>false</IsTruncated>');
    }
    if (request.url?.includes('uploads')) {
      const key = String(pages).padStart(9, '0');
      const content = `<IsTruncated>true</IsTruncated><NextKeyMarker>${key}</NextKeyMarker>`;
      return sendXml(response, 'ListMultipartUploadsResult', content);
    }
    response.writeHead(204).end();
  });
});
afterEach(async () => {
  await store.close();
  await side.stop();
});

/** A cancelled run that may have an upload at the store. */
async function leaveUpload(teamId = side.teamId, prefix = '') {
  const destination = { type: 'S3', config: { ...storeConfig(), prefix }, secrets: null };
  const { id } = await createExportOfThePast(side, { teamId, destination });
  await decide(side.context);
  const run = await claim(side, (await firstRun(side.db, id)).id);
  await noteUploads(side.db, run, 60_000);
  await makeDue();
  await side.db.transaction((tx) => cancelRuns(tx, { exportId: id }));
  await expireLease(side.db, run.runId);
  return run;
}

const newGuard = () => new WorkGuard(side.db, ({ kind, id }) => setAside.push(`${kind} ${id}`));

/** One sweep of a worker that has just started: it knows nothing but our tables. */
async function sweep(duty = collectUploads): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  stopping = new AbortController();
  const agents = { httpAgent: new HttpAgent(), httpsAgent: new HttpsAgent() };
  const options: SweepOptions = {
    context: side.context,
    connectors: connectorsWith(agents),
    guard: newGuard(),
    onSweepError: (error) => errors.push(error),
    stopping: stopping.signal,
  };
  await duty(options);
  return errors;
}

const connectorsWith = (agents: object) =>
  joinConnectors(
    () => {
      throw new Error('no source');
    },
    contextWith({ ...agents, requestRetry: { maxAttempts: 1, baseMs: 1, capMs: 1 } }),
    side.context.secrets,
  );

/** A config of the store. */
const storeConfig = () => ({
  bucket_name: 'bucket',
  region: 'us-east-1',
  aws_access_key_id: 'AKIAHOSTILE000000001',
  aws_secret_access_key: 'hostile-secret',
  endpoint_url: store.endpoint,
});

function makeDue(): Promise<unknown> {
  return side.db.query(`update upload_places set look_at = now() - interval '1 s'`);
}

async function readTries(): Promise<{ tries: number; waits: number }[]> {
  return side.sql`select tries, round(extract(epoch from look_at - now()))::int as waits
    from upload_places`;
}

describe('a list of uploads without an end', () => {
  it('is left when the worker stops, and not begun again by a worker that starts', async () => {
    await leaveUpload();
    pagesUntilStop = 5;
    expect(await sweep()).toHaveLength(1);
    expect(store.requests).toHaveLength(5);
    await sweep();
    expect(store.requests).toHaveLength(5);
    const [upload] = await readTries();
    expect(upload?.tries).toBe(1);
    expect(upload?.waits).toBeGreaterThan(0);
  });

  it('is not begun again if the worker dies over it', async () => {
    await leaveUpload();
    expect(await takeUploadPlace(side.db, side.teamId, 30_000)).not.toBeNull();
    await sweep();
    expect(store.requests).toEqual([]);
  });

  it('is tried less and less often, then not at all, and the log says so', async () => {
    const { exportId } = await leaveUpload();
    const waits: number[] = [];
    for (let tried = 0; tried < maxLooks; tried += 1) {
      await makeDue();
      pagesUntilStop = store.requests.length + 1;
      expect(await sweep()).toHaveLength(1);
      waits.push((await readTries())[0]?.waits ?? 0);
    }
    expect(waits.slice(0, 4)).toEqual([5, 10, 20, 40]);
    expect(waits.at(-2)).toBe(6 * 3_600);
    const before = store.requests.length;
    await makeDue();
    expect(await sweep()).toEqual([]);
    expect(store.requests).toHaveLength(before);
    const entries = await side.sql<{ message: string }>`select message from log_entries
      where export_id = ${exportId} and level = 'WARNING'`;
    expect(entries).toHaveLength(1);
    expect(entries[0]?.message).toMatch(/^Sluice stopped looking for unfinished uploads/);
  });
});

describe('work that ends its process', () => {
  /** A worker begins it and dies: nothing more is heard of it, and its time is over. */
  async function die(id: string, guard = newGuard()): Promise<GuardedEnd> {
    const begun = new Promise<void>((resolve) => {
      void guard
        .do({ kind: 'abort_uploads', id }, 30_000, () => {
          resolve();
          return new Promise<never>(() => {});
        })
        .then(
          (end) => ended.push(end),
          () => {},
        );
    });
    const ended: GuardedEnd[] = [];
    await Promise.race([begun, until(() => ended.length > 0)]);
    await side.db.query(`update guarded_work set expires_at = now() - interval '1 s'`);
    return ended[0] ?? 'done';
  }

  it('is set aside after the third process, until an operator allows it again', async () => {
    const { exportId } = await leaveUpload(side.teamId, 'tidy');
    for (let n = 0; n < 3; n += 1) expect(await die(exportId)).toBe('done');
    await sweep();
    await sweep();
    expect(store.requests).toEqual([]);
    expect(setAside).toEqual([`abort_uploads ${exportId}`]);
    expect(await listWorkSetAside(side.db, 10)).toMatchObject([{ id: exportId, deaths: 3 }]);
    // It takes no turn of the team's other work.
    expect(await findTeamsToLookAt(side.db, 10)).toEqual([]);

    expect(await retryWork(side.db, exportId)).toHaveLength(1);
    await makeDue();
    expect(await sweep()).toEqual([]);
    expect(store.requests[0]).toMatch(/^GET /);
    expect(await side.db.query('select from guarded_work')).toEqual([]);
  });

  it('is counted although it ended well in between, and not hours later', async () => {
    const end = () => newGuard().do({ kind: 'sample', id: '7' }, 1_000, async () => {});
    const kill = async () => {
      void newGuard().do({ kind: 'sample', id: '7' }, 1_000, () => new Promise<never>(() => {}));
      await until(
        async () =>
          (await side.db.query('select from guarded_work where holder is not null')).length > 0,
      );
      await side.db.query(`update guarded_work set expires_at = now() - interval '1 s'`);
    };
    await kill();
    expect(await end()).toBe('done');
    await kill();
    expect(await end()).toBe('done');
    await kill();
    expect(await end()).toBe('set aside');
    await retryWork(side.db, null);
    for (let n = 0; n < 4; n += 1) {
      await kill();
      expect(await end()).toBe('done');
      await side.db.query(`update guarded_work set died_at = now() - interval '7 hours'`);
    }
  });

  it('is alone in its process after two deaths, so that work of others is not blamed', async () => {
    const { exportId } = await leaveUpload();
    for (let n = 0; n < 2; n += 1) await die(exportId);
    const guard = newGuard();
    const inProgress: string[] = [];
    const ends: (() => void)[] = [];
    const begin = (id: string) =>
      guard.do({ kind: 'abort_uploads', id }, 1_000, async () => {
        inProgress.push(id);
        await new Promise<void>((resolve) => ends.push(resolve));
        inProgress.splice(inProgress.indexOf(id), 1);
      });
    const first = begin('other');
    await until(() => inProgress.length === 1);
    const suspect = begin(exportId);
    await until(async () => {
      const rows = await side.sql`select from guarded_work where id = ${exportId}
        and holder is null`;
      return rows.length === 1;
    });
    expect(inProgress).toEqual(['other']);
    ends.shift()?.();
    await first;
    await until(() => inProgress.includes(exportId));
    const later = begin('later');
    ends.shift()?.();
    await suspect;
    await until(() => inProgress.includes('later'));
    ends.shift()?.();
    await later;
  });

  it('is not blamed for a worker that stops as asked, and one that was frozen ends only its own', async () => {
    const stopped = newGuard();
    const frozen = newGuard();
    const ends: (() => void)[] = [];
    const begin = (guard: WorkGuard) => {
      const before = ends.length;
      const end = guard.do(
        { kind: 'look_back', id: 'x' },
        1_000,
        () => new Promise<void>((resolve) => ends.push(resolve)),
      );
      return until(() => ends.length > before).then(() => ({ end }));
    };
    await begin(stopped);
    await stopped.close();
    const { end } = await begin(frozen);
    expect(await side.db.query('select deaths from guarded_work')).toEqual([{ deaths: 0 }]);
    expect(await newGuard().do({ kind: 'look_back', id: 'x' }, 1_000, async () => {})).toBe('busy');
    await side.db.query(`update guarded_work set expires_at = now() - interval '1 s'`);
    await begin(newGuard());
    ends[1]?.();
    expect(await end).toBe('done');
    expect(await side.db.query('select deaths from guarded_work where holder is not null')).toEqual(
      [{ deaths: 1 }],
    );
  });
});

it('the uploads of other tenants are collected meanwhile', async () => {
  await leaveUpload();
  const other = await leaveUpload(side.tenant.projectIds[1], 'tidy');
  pagesUntilStop = 50;
  await sweep();
  const left = await side.db.query<{ id: string }>(`select export_id as id from upload_places`);
  expect(left.map(({ id }) => id)).not.toContain(other.exportId);
});
