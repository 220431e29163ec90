import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import {
  retireDestination,
  returnToPlace,
} from '../../../src/state/store/files/former-destinations.ts';
import {
  countDeathAlone,
  renewLeases,
  sweepExpiredLeases,
} from '../../../src/state/store/runs/leases.ts';
import { handBackRun, recordProgress, recordSent } from '../../../src/state/store/runs/runs.ts';
import { noteUploads } from '../../../src/state/store/files/upload-places.ts';
import {
  quarantineRun,
  recordDeathAlone,
  recordFault,
  releaseRun,
} from '../../../src/service/use-cases/runs/finish-run.ts';
import { emptyCommit, type RunRow, useRunSide } from '../../support/run-side.ts';
import { beginCommit, claimRun } from '../../support/run-verbs.ts';

const side = useRunSide();
const leaseMs = 60_000;
const passing = new SluiceError('destination.unavailable');

function tryClaim(runId: string, holder = String(randomUUID())): Promise<ClaimedRun | null> {
  return claimRun(side.db, runId, holder, leaseMs);
}

const state = (exportId: string): Promise<RunRow> => side.firstRun(exportId);

describe('a claim', () => {
  it('succeeds for one of twenty workers', async () => {
    const { exportId, runId } = await side.waitingRun();
    const claims = await Promise.all(Array.from({ length: 20 }, () => tryClaim(runId)));
    expect(claims.filter((run) => run !== null)).toHaveLength(1);
    expect(await state(exportId)).toMatchObject({ fence: 1, attempt: 1, waits: false });
  });

  it('is refused while a lease is held, after the run ended, and for a run that is not there', async () => {
    const run = await side.claimed();
    expect(await tryClaim(run.runId)).toBeNull();
    await side.complete(run);
    expect(await tryClaim(run.runId)).toBeNull();
    expect(await tryClaim(randomUUID())).toBeNull();
  });

  it('may be repeated under its own name: the answer to the first was lost, and nothing crashed', async () => {
    const { exportId, runId } = await side.waitingRun();
    const first = await side.claim(runId, { holder: 'worker/claim' });
    const second = await side.claim(runId, { holder: 'worker/claim' });
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(await tryClaim(runId, 'worker/other claim')).toBeNull();
    expect(await state(exportId)).toMatchObject({ crashes: 0 });
  });

  it('does not come before the backoff is over, however often the queue delivers its job', async () => {
    const { exportId, runId } = await side.waitingRun();
    await recordFault(side.context, await side.claim(runId), passing, 0.99);
    expect(await tryClaim(runId)).toBeNull();
    expect(await state(exportId)).toMatchObject({ status: 'Running', waits: true });
  });

  it.each(['Cancelled', 'held'])('clears the outbox of a run that is %s', async (how) => {
    const run = await side.claimed();
    if (how === 'Cancelled') {
      await side.sql`update runs set status = 'Cancelled', finished_at = now() where id = ${run.runId}`;
    }
    // As a sweep leaves it that looked before the cancellation, or before the worker woke up.
    await side.sql`insert into outbox (run_id, team_id, export_id, data_interval_start, dispatched_at)
       select id, team_id, export_id, data_interval_start, now() from runs where id = ${run.runId}`;
    expect(await tryClaim(run.runId)).toBeNull();
    expect(await state(run.exportId)).toMatchObject({ waits: false, fence: run.fence });
  });
});

it('the fence refuses every late write of a worker that lost its run', async () => {
  const { exportId, runId } = await side.waitingRun();
  const late = await side.claim(runId);
  const holder = await side.overtake(runId);
  expect(holder.fence).toBeGreaterThan(late.fence);

  const progress = { totalRows: 9, rows: 9, bytes: 9, files: 9 };
  const before = await side.sql`select * from runs where id = ${runId}`;
  expect(await recordProgress(side.db, late, progress, null)).toBe(false);
  expect(await noteUploads(side.db, late, leaseMs)).toBe(false);
  await recordSent(side.db, late, 5);
  expect(await beginCommit(side.db, late, leaseMs, {}, emptyCommit)).toBe(false);
  expect(await renewLeases(side.db, [late], leaseMs)).toEqual(new Set());
  expect(await handBackRun(side.db, late, 0, null)).toBe(false);
  expect(await side.complete(late)).toBe(false);
  await recordFault(side.context, late, passing, 0);
  await recordFault(side.context, late, new SluiceError('destination.access_denied'), 0);
  await releaseRun(side.context, late);
  await quarantineRun(side.context, late, 'SIGSEGV');
  await recordDeathAlone(side.context, late, { certain: true, how: 'SIGSEGV' });

  expect(await side.sql`select * from runs where id = ${runId}`).toEqual(before);
  expect(await state(exportId)).toMatchObject({ waits: false });
  const [tables] = await side.sql`
      select (select count(*)::int from upload_places where export_id = ${exportId}) as places,
              (select count(*)::int from receipts where run_id = ${runId}) as receipts,
              (select count(*)::int from log_entries where run_id = ${runId}) as logs,
              (select failure_streak from batch_exports where id = ${exportId}) as streak`;
  expect(tables).toEqual({ places: 0, receipts: 0, logs: 0, streak: 0 });
  expect(await side.complete(holder)).toBe(true);
});

describe('a process that a run had for itself and that ended', () => {
  const killed = { certain: false, how: 'SIGKILL' };
  const crashed = { certain: true, how: 'SIGSEGV' };

  async function attemptedRun() {
    const { exportId, runId } = await side.waitingRun();
    const attempt = async () => {
      await side.sql`update outbox set available_at = now() where run_id = ${runId}`;
      return side.claim(runId);
    };
    return { exportId, runId, attempt };
  }

  it('fails the run at once if it crashed, while others continue', async () => {
    const { exportId, attempt } = await attemptedRun();
    const other = await side.waitingRun();
    await recordDeathAlone(side.context, await attempt(), crashed);
    expect(await state(exportId)).toMatchObject({ status: 'Failed', errorCode: 'run.crashed' });
    await side.completeRuns(other.runId);
  });

  it('fails the run the second time if it may have been killed from outside', async () => {
    const { exportId, attempt } = await attemptedRun();
    await recordDeathAlone(side.context, await attempt(), killed);
    expect(await state(exportId)).toMatchObject({ status: 'Running', waits: true, faults: 1 });
    await recordDeathAlone(side.context, await attempt(), killed);
    expect(await state(exportId)).toMatchObject({ status: 'Failed', errorCode: 'run.crashed' });
  });

  it('does not count twice if the run made progress in between', async () => {
    const { exportId, attempt } = await attemptedRun();
    await recordDeathAlone(side.context, await attempt(), killed);
    const run = await attempt();
    await recordSent(side.db, run, 8);
    await recordDeathAlone(side.context, run, killed);
    expect(await state(exportId)).toMatchObject({ status: 'Running', faults: 2 });
  });

  it('counts once, however often it is recorded', async () => {
    const { runId, attempt } = await attemptedRun();
    const run = await attempt();
    expect(await countDeathAlone(side.db, run)).toBe(1);
    expect(await countDeathAlone(side.db, run)).toBe(1);
    await side.expireLease(runId);
    expect(await countDeathAlone(side.db, await attempt())).toBe(2);
  });
});

describe('a lease that ran out', () => {
  it('is swept into the outbox once, and its next claim counts a crash', async () => {
    const { exportId, runId } = await side.claimed();
    expect(await sweepExpiredLeases(side.db)).toBe(0);
    await side.expireLease(runId);
    const sweeps = await Promise.all([1, 2, 3].map(() => sweepExpiredLeases(side.db)));
    expect(sweeps.reduce((sum, swept) => sum + swept)).toBe(1);
    expect(await state(exportId)).toMatchObject({ waits: true });
    expect(await side.claim(runId)).toMatchObject({ crashes: 1, faults: 0 });
  });

  it('is renewed by a worker that was only slow, if no other worker took it meanwhile', async () => {
    const run = await side.claimed();
    await side.expireLease(run.runId);
    expect(await renewLeases(side.db, [run], leaseMs)).toEqual(new Set([run.runId]));
    expect(await tryClaim(run.runId)).toBeNull();
    expect(await side.complete(run)).toBe(true);
  });

  it('counts a crash whatever the attempt was doing, also if a small run or a commit was in progress', async () => {
    const { runId } = await side.claimed();
    const committing = await side.overtake(runId);
    expect(committing).toMatchObject({ attempt: 2, crashes: 1 });
    expect(await beginCommit(side.db, committing, leaseMs, {}, emptyCommit)).toBe(true);
    expect(await side.overtake(runId)).toMatchObject({ attempt: 3, crashes: 2 });
  });

  it('counts no crash if the lease was taken away: the era or the destination changed', async () => {
    const { runId } = await side.waitingRun();
    const { exportId } = await side.claim(runId);
    await side.db.transaction(async (tx) => {
      await retireDestination(tx, exportId);
      await returnToPlace(tx, exportId, [0]);
    });
    expect(await side.claim(runId)).toMatchObject({ attempt: 2, crashes: 0 });
  });

  it('counts again from zero only if the run has sent more than ever before', async () => {
    const { runId } = await side.waitingRun();
    await recordSent(side.db, await side.claim(runId), 8);
    const again = await side.overtake(runId);
    expect(again).toMatchObject({ crashes: 1 });
    // An attempt that begins anew sends what was sent before.
    await recordSent(side.db, again, 8);
    const further = await side.overtake(runId);
    expect(further).toMatchObject({ crashes: 2 });
    await recordSent(side.db, further, 9);
    expect(await side.overtake(runId)).toMatchObject({ crashes: 1 });
  });
});

describe('handing back', () => {
  it('on shutdown counts neither a fault nor a crash, and the run may start at once', async () => {
    const { exportId, runId } = await side.waitingRun();
    await releaseRun(side.context, await side.claim(runId));
    expect(await state(exportId)).toMatchObject({ status: 'Running', waits: true });
    expect(await side.claim(runId)).toMatchObject({ crashes: 0, faults: 0, attempt: 2 });
  });

  it('ends the lease: a heartbeat or a commit in progress does not take it back, nor does a repeat count', async () => {
    const run = await side.claimed();
    await recordFault(side.context, run, passing, 0);
    expect(await renewLeases(side.db, [run], leaseMs)).toEqual(new Set());
    expect(await beginCommit(side.db, run, leaseMs, {}, emptyCommit)).toBe(false);
    await recordFault(side.context, run, passing, 0);
    await releaseRun(side.context, run);
    expect(await state(run.exportId)).toMatchObject({ status: 'Running', waits: true, faults: 1 });
    expect(await tryClaim(run.runId)).toMatchObject({ attempt: 2, crashes: 0, faults: 1 });
  });

  it('after a transient error counts it, keeps its text and backs off longer each time', async () => {
    const { exportId, runId } = await side.waitingRun();
    const delays: number[] = [];
    for (let fault = 1; fault <= 4; fault += 1) {
      await recordFault(side.context, await side.claim(runId), passing, 0.999_999);
      const [row] = await side.sql<{ seconds: number; text: string }>`
        select round(extract(epoch from available_at - r.last_updated_at))::int as seconds, latest_error as text
           from outbox o join runs r on r.id = o.run_id where o.run_id = ${runId}`;
      delays.push(row?.seconds ?? 0);
      expect(row?.text).toMatch(/^destination\.unavailable: /);
      await side.sql`update outbox set available_at = now() where run_id = ${runId}`;
    }
    expect(delays).toEqual([30, 60, 120, 240]);
    expect(await state(exportId)).toMatchObject({ faults: 4, crashes: 0, status: 'Running' });
  });

  it('after a fault of our own database counts nothing, however often it happens', async () => {
    const { exportId, runId } = await side.waitingRun();
    const { maxAttempts } = side.context.policy.retry;
    const error = new SluiceError('internal.database_unavailable');
    for (let fault = 0; fault <= maxAttempts; fault += 1) await side.failAttempt(runId, error);
    expect(await state(exportId)).toMatchObject({ status: 'Running', faults: 0, waits: true });
  });

  it('ends in FailedRetryable once the attempts are used up, shutdowns and crashes not counted', async () => {
    const { exportId, runId } = await side.waitingRun();
    const { maxAttempts } = side.context.policy.retry;
    await releaseRun(side.context, await side.claim(runId));
    await side.claim(runId);
    await side.expireLease(runId);
    for (let fault = 1; fault < maxAttempts; fault += 1) {
      await side.failAttempt(runId, passing);
      expect(await state(exportId)).toMatchObject({ status: 'Running', faults: fault });
    }
    await side.failAttempt(runId, passing);
    const ended = { status: 'FailedRetryable', waits: false, errorCode: passing.code };
    expect(await state(exportId)).toMatchObject(ended);
    expect((await side.findRun({ exportId, runId })).latestError).toMatch(
      /All attempts failed\. Once it works, Sluice exports what is missing by itself, for heal_for_hours\./,
    );
    const [row] = await side.sql`select failure_streak from batch_exports where id = ${exportId}`;
    expect(row).toEqual({ failure_streak: 0 });
  });
});
