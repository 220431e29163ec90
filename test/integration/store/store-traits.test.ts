import { describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { StoreTraits } from '../../../src/foundation/domain/store-traits.ts';
import { retireDestination } from '../../../src/state/store/files/former-destinations.ts';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { keepNewTraits } from '../../../src/service/worker/try-store.ts';
import { findStoreTraits, keepStoreTraits } from '../../../src/state/store/files/store-traits.ts';
import { failAttempt, useRunSide } from '../../support/run-side.ts';

const side = useRunSide({ secondOpinionMs: 0 });

const traits: StoreTraits = {
  ifNoneMatch: true,
  ifMatch: 'unquoted',
  completeIfNoneMatch: false,
  completeIfMatch: false,
  checksums: false,
  parts: { equal: true, most: 1_000, bytes: null },
};

describe('what a probe found', () => {
  const place = (exportId: string, destinationVersion = 0) => ({ exportId, destinationVersion });

  it('is kept for the destination that was tried, until it moves, and not for one that was left', async () => {
    const { id } = await side.exportWithRuns(1);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    await keepStoreTraits(side.db, place(id), traits);
    expect(await findStoreTraits(side.db, place(id))).toEqual(traits);
    expect(await findStoreTraits(side.db, place(id, 1))).toBeNull();
    await side.db.transaction((tx) => retireDestination(tx, id));
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    await keepStoreTraits(side.db, place(id), traits);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    expect(await findStoreTraits(side.db, place(id, 1))).toBeNull();
  });

  it('is replaced after a run that found a store that had changed, and the log of the run says so', async () => {
    const { id } = await side.exportWithRuns(1);
    await keepStoreTraits(side.db, place(id), traits);
    const entries: string[] = [];
    const log = { add: (level: string, text: string) => void entries.push(`${level} ${text}`) };
    const foundOut = (found: StoreTraits | null) =>
      keepNewTraits(side.db, place(id), traits, { traits: found } as Destination, log);
    await foundOut(traits);
    expect(entries).toEqual([]);
    await foundOut({ ...traits, ifMatch: 'none' });
    expect(await findStoreTraits(side.db, place(id))).toMatchObject({ ifMatch: 'none' });
    const says =
      /^WARNING The store behaved differently than before and was probed again\. .*If-Match/;
    expect(entries).toContainEqual(expect.stringMatching(says));
    entries.length = 0;
    await foundOut(null);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
    expect(entries).toEqual([
      'WARNING The store behaved differently than before. The next run probes it.',
    ]);
  });

  it('is not used if an earlier release tested less', async () => {
    const { id } = await side.exportWithRuns(1);
    const { checksums: _, ...less } = traits;
    await keepStoreTraits(side.db, place(id), less as StoreTraits);
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
  });

  it('is used for seven days', async () => {
    const { id } = await side.exportWithRuns(1);
    await keepStoreTraits(side.db, place(id), traits);
    const age = (text: string) =>
      side.sql`
        update batch_exports set store_traits_at = now() - ${text}::interval where id = ${id}`;
    await age('6 days 23 hours');
    expect(await findStoreTraits(side.db, place(id))).toEqual(traits);
    await age('7 days 1 second');
    expect(await findStoreTraits(side.db, place(id))).toBeNull();
  });
});

describe('a permanent error', () => {
  const denied = new SluiceError('destination.access_denied');
  const noBucket = new SluiceError('destination.bucket_not_found');
  const away = new SluiceError('destination.unavailable');
  const fail = async (runId: string | undefined, ...errors: readonly SluiceError[]) => {
    for (const error of errors) {
      // Backoff is not what is tested.
      await side.sql`update outbox set available_at = now() where run_id = ${runId}`;
      await side.failAttempt(runId ?? '', error);
    }
  };
  const runOf = async (id: string, at: number) => (await side.listRuns(id))[at];
  const streakOf = (id: string) =>
    side.sql.value`select failure_streak from batch_exports where id = ${id}`;

  async function workingExport(): Promise<{ id: string; runId: string | undefined }> {
    const { id, runIds } = await side.exportWithRuns(2);
    await side.completeRuns(runIds[0]);
    return { id, runId: runIds[1] };
  }

  it('ends the run at once at a destination that never took an interval', async () => {
    const { id, runIds } = await side.exportWithRuns(1);
    await fail(runIds[0], denied);
    expect(await runOf(id, 0)).toMatchObject({ status: 'Failed', attempt: 1 });
  });

  it('ends it at one that did if the next attempt fails the same way, and counts no fault', async () => {
    const { id, runId } = await workingExport();
    await fail(runId, denied);
    const waiting = { status: 'Running', waits: true, faults: 0, errorCode: denied.code };
    expect(await runOf(id, 1)).toMatchObject(waiting);
    expect(await streakOf(id)).toBe(0);
    await fail(runId, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 2, faults: 0 });
    expect(await streakOf(id)).toBe(1);
    const entries = await side.sql<{ level: string; message: string }>`
      select level, message from log_entries where run_id = ${runId} order by id`;
    expect(entries.map(({ level }) => level)).toEqual(['WARNING', 'ERROR']);
    expect(entries[0]?.message).toMatch(
      /worked before, so Sluice tries once more in .*destination\.access_denied/,
    );
  });

  it('waits for the second attempt as long as the policy says', async () => {
    const { runId } = await workingExport();
    const context = side.withPolicy({ secondOpinionMs: 10_000 });
    await failAttempt(side, context, runId ?? '', denied);
    const seconds = await side.sql.value`
      select extract(epoch from available_at - last_updated_at)::float8
         from outbox o join runs r on r.id = o.run_id where o.run_id = ${runId}`;
    expect(seconds).toBeCloseTo(10, 3);
  });

  it('must come twice in a row, and is counted if it changes', async () => {
    const { id, runId } = await workingExport();
    await fail(runId, denied, away, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Running', faults: 1 });
    await fail(runId, noBucket, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Running', faults: 3 });
    await fail(runId, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 6 });
  });

  it('ends it at once at another destination than the one that worked', async () => {
    const { id, runId } = await workingExport();
    await side.db.transaction((tx) => retireDestination(tx, id));
    await fail(runId, denied);
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 1 });
  });

  it('is final at once if it is not the destination’s', async () => {
    const { id, runId } = await workingExport();
    await fail(runId, new SluiceError('query.invalid'));
    expect(await runOf(id, 1)).toMatchObject({ status: 'Failed', attempt: 1 });
  });
});
