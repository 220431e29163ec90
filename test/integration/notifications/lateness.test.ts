import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { checkLateness } from '../../../src/state/store/exports/export-states.ts';
import { pauseExport } from '../../../src/service/use-cases/exports/pause-export.ts';
import { deliveriesOf, useNotified } from '../../support/notified.ts';
import { exportOfThePast, type ExportWanted } from '../../support/run-side.ts';
import { disabledCodes } from '../../../src/foundation/domain/batch-export.ts';
import { useApi } from '../../support/api-under-test.ts';
import { storeExport } from '../../support/store-export.ts';

const minuteMs = 60_000;
const { side, types, webhook } = useNotified();
beforeEach(() => webhook());
afterEach(() => side.sql`update batch_exports set deleted_at = now()`);

/** An export that was created `createdMsAgo` before, and has been as long without data. */
async function createLate(wanted: ExportWanted = {}): Promise<string> {
  const { id } = await side.createExport(wanted);
  await side.sql`
    update batch_exports set created_at = now() - ${wanted.createdMsAgo ?? 0} * interval '1 ms'
      where id = ${id}`;
  return id;
}

/** Seconds; null: not late. */
const lateness = (id: string) =>
  side.sql.value<number | null>`
    select extract(epoch from now() - late_since)::float8 from batch_exports where id = ${id}`;

describe('an export without a deadline', () => {
  it('is late once its data is older, since the moment when it became so', async () => {
    const late = await createLate({ createdMsAgo: 300 * minuteMs });
    const fresh = await createLate({ createdMsAgo: 80 * minuteMs });
    const promised = await createLate({ createdMsAgo: 300 * minuteMs, deadlineMinutes: 600 });
    // No worker checked for hours: the moment is that of two intervals and six minutes, not of the check.
    expect(await checkLateness(side.db)).toBe(1);
    expect(await lateness(late)).toBeGreaterThan(174 * 60 - 1);
    expect(await lateness(late)).toBeLessThan(174 * 60 + 60);
    expect([await lateness(fresh), await lateness(promised)]).toEqual([null, null]);
    expect([await checkLateness(side.db), await types()]).toEqual([0, ['export.late']]);
    const [event] = await deliveriesOf(side.db);
    expect(event?.facts).toMatchObject({
      high_water_mark: null,
      late_since: expect.stringMatching(/Z$/),
    });
  });

  it('is on time again once an interval completes, not before', async () => {
    const id = await createLate({ createdMsAgo: 240 * minuteMs });
    await checkLateness(side.db);
    await side.decide();
    const runs = await side.listRuns(id);
    await side.completeRuns(runs[0]?.id);
    await checkLateness(side.db);
    expect(await types()).toEqual(['export.late']);
    await side.completeRuns(...runs.slice(1).map((run) => run.id));
    await checkLateness(side.db);
    expect(await lateness(id)).toBeNull();
    expect(await types()).toEqual(['export.late', 'export.on_time']);
  });

  it('is noticed once by many workers that check at the same time', async () => {
    await createLate({ createdMsAgo: 300 * minuteMs });
    await side.db.transaction(async (tx) => {
      expect(await checkLateness(tx)).toBe(1);
      const others = await Promise.all([...Array(8)].map(() => checkLateness(side.db)));
      expect(others).toEqual(Array(8).fill(0));
    });
    expect([await checkLateness(side.db), await types()]).toEqual([0, ['export.late']]);
  });

  it('that a person paused is not late; one that Sluice paused is', async () => {
    const byPerson = await createLate({ createdMsAgo: 300 * minuteMs });
    await checkLateness(side.db);
    await pauseExport(side.context, side.actor, byPerson);
    await checkLateness(side.db);
    expect(await lateness(byPerson)).toBeNull();
    // It is not on time either.
    expect(await types()).toEqual(['export.late']);
    const bySluice = await createLate({ createdMsAgo: 300 * minuteMs });
    await side.sql`
      update batch_exports set paused = true, paused_reason = 'failures' where id = ${bySluice}`;
    await checkLateness(side.db);
    expect(await lateness(bySluice)).not.toBeNull();
  });

  it('is not late after its end or before its start', async () => {
    const now = await readNow(side.db);
    const old = 300 * minuteMs;
    const ended = await createLate({ createdMsAgo: old, endAt: now - 250 * minuteMs });
    const future = await createLate({ createdMsAgo: old, startAt: now + minuteMs });
    await checkLateness(side.db);
    expect([await lateness(ended), await lateness(future)]).toEqual([null, null]);
    expect(await types()).toEqual([]);
  });

  it('that is locked at this moment is left to the next check', async () => {
    const id = await createLate({ createdMsAgo: 300 * minuteMs });
    await side.db.transaction(async (tx) => {
      await tx.query('select from batch_exports where id = $1 for update', [id]);
      expect(await checkLateness(side.db)).toBe(0);
    });
    expect(await checkLateness(side.db)).toBe(1);
  });
});

describe('disabled tenants', () => {
  const api = useApi();

  test('an operator who disables a tenant alerts no target, and a pause by Sluice does', async () => {
    const operator = await api.asOperator();
    const target = { url: 'https://example.com/hooks' };
    expect((await operator.post('/api/admin/notification_targets', target)).status).toBe(201);
    expect((await api.post(`${api.project}/notification_targets`, target)).status).toBe(201);
    const side = { db: api.db, teamId: api.teamId };
    await storeExport(api.db, await exportOfThePast(side));
    const events = () =>
      api.sql`select distinct on (event_id) type, facts from notification_deliveries`;
    for (const at of [`organizations/${api.tenant.organizationId}`, `projects/${api.teamId}`]) {
      await operator.patch(`/api/admin/${at}`, { disabled: true });
      // The trigger names these reasons.
      expect(disabledCodes).toContain(await api.sql.value`select paused_code from batch_exports`);
      expect(await events()).toEqual([]);
      await operator.patch(`/api/admin/${at}`, { disabled: false });
    }
    await api.sql`update batch_exports set paused = true, paused_reason = 'failures'`;
    expect(await events()).toMatchObject([
      { type: 'export.paused', facts: { reason: 'failures' } },
    ]);
  });
});
