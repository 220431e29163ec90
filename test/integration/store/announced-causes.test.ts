import { beforeEach, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { createExportOfThePast, decide, hourMs } from '../../support/run-side.ts';
import { useRunSide } from '../../support/use-run-side.ts';

const side = useRunSide({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
const { work } = attemptsOf(side);

beforeEach(async () => {
  await side.db.query(`update batch_exports set deleted_at = now(), announced_code = null`);
  await side.db.query(`delete from notification_deliveries`);
  await side.db.query(`delete from notification_targets`);
  await side.db.query(
    `insert into notification_targets (organization_id, kind, description, format, events)
     values ($1, 'webhook', '', 'json', '{healing.started,healing.ended}')`,
    [side.tenant.organizationId],
  );
});

const place = placeOf(null);

/** An export that has failed for two minutes. @returns its id */
async function brokenExport(healForHours = 168): Promise<string> {
  const { id } = await createExportOfThePast(side, { createdMsAgo: hourMs });
  await side.db.query(`update batch_exports set heal_for_hours = $2 where id = $1`, [
    ...[id, healForHours],
  ]);
  await decide(side.context);
  place.error = new SluiceError('destination.invalid_credentials');
  await work([id], place);
  await side.db.query(
    `with later as (update holes set next_try_at = now() + interval '1 hour' where export_id = $1)
     update batch_exports set failing_since = now() - interval '2 minutes' where id = $1`,
    [id],
  );
  return id;
}

const events = async (type: string) => {
  const rows = await side.db.query<{ exports: readonly { readonly id: string }[] }>(
    `select facts->'exports' as exports from notification_deliveries where type = $1`,
    [type],
  );
  return rows.map(({ exports }) => exports.map(({ id }) => id));
};

it('are announced once for all exports of an organization, and once when the last of them works again', async () => {
  await brokenExport(0);
  const first = await brokenExport();
  await heal(side.context);
  await heal(side.context);
  expect(await events('healing.started')).toEqual([[first]]);
  // The same error of another export is no news.
  const second = await brokenExport();
  await heal(side.context);
  expect(await events('healing.started')).toEqual([[first]]);

  place.error = null;
  for (const [id, ended] of [
    [first, []],
    [second, [[first, second]]],
  ] as const) {
    await side.db.query(`update holes set next_try_at = now() where export_id = $1`, [id]);
    await heal(side.context);
    await work([id], place);
    await heal(side.context);
    expect(await events('healing.ended')).toEqual(ended);
  }
  const nothingToDo = await side.db.query(
    `select from notification_deliveries where type = 'healing.ended' and facts->>'turn' is null and facts->>'next_step' is null`,
  );
  expect(nothingToDo).toHaveLength(1);
});

it('are not announced while a person has paused all that they hold up', async () => {
  const id = await brokenExport();
  const pause = (paused: boolean) =>
    side.db.query(`update batch_exports set paused = $2, paused_reason = null where id = $1`, [
      ...[id, paused],
    ]);
  await pause(true);
  await heal(side.context);
  expect(await events('healing.started')).toEqual([]);

  await pause(false);
  await heal(side.context);
  expect(await events('healing.started')).toEqual([[id]]);
});
