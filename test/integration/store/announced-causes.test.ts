import { beforeEach, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { createExportOfThePast, decide, hourMs } from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
const { work } = attemptsOf(side);

beforeEach(async () => {
  await side.db.query(
    `with ended as (delete from causes) update batch_exports set deleted_at = now()`,
  );
  await side.db.query(`delete from notification_events`);
  await side.db.query(`delete from notification_targets`);
  await side.db.query(
    `insert into notification_targets (organization_id, kind, description, format, events)
     values ($1, 'webhook', '', 'json', '{healing.started,healing.ended}')`,
    [side.tenant.organizationId],
  );
});

/** An export whose place is down. @returns its id */
async function brokenExport(healForHours: number): Promise<string> {
  const { id } = await createExportOfThePast(side, { createdMsAgo: hourMs });
  await side.db.query(`update batch_exports set heal_for_hours = $2 where id = $1`, [
    ...[id, healForHours],
  ]);
  await decide(side.context);
  await work([id], placeOf(new SluiceError('destination.invalid_credentials')));
  return id;
}

const started = () =>
  side.db.query<{ exports: readonly { readonly id: string }[] }>(
    `select facts->'exports' as exports from notification_events where type = 'healing.started'`,
  );

it('are not delayed by causes that hold nothing up, whatever their number', async () => {
  await brokenExport(0);
  // What other tenants' exports without healing leave behind.
  await side.db.query(
    `insert into causes (scope, organization_id, place, code, latest_error, opened_at, next_probe_at)
     select scope, organization_id, 'idle ' || n, code, latest_error, opened_at, next_probe_at from causes, generate_series(1, 200) n`,
  );
  const id = await brokenExport(168);
  await side.db.query(
    `update causes set opened_at = case when place like 'idle %' then now() - interval '1 hour' else now() - interval '2 minutes' end`,
  );
  await heal(side.context);
  expect((await started()).map(({ exports }) => exports.map((one) => one.id))).toEqual([[id]]);

  await heal(side.context);
  expect(await started(), 'once').toHaveLength(1);
});

it('are not announced while a person has paused all that they hold up', async () => {
  const id = await brokenExport(168);
  const pause = (paused: boolean) =>
    side.db.query(`update batch_exports set paused = $2, paused_reason = null where id = $1`, [
      ...[id, paused],
    ]);
  await side.db.query(`update causes set opened_at = now() - interval '2 minutes'`);
  await pause(true);
  await heal(side.context);
  expect(await started()).toEqual([]);

  await pause(false);
  await heal(side.context);
  expect((await started()).map(({ exports }) => exports.map((one) => one.id))).toEqual([[id]]);
});
