import { beforeEach, describe, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { checkDeadlines } from '../../../src/service/use-cases/deadlines/check-deadlines.ts';
import { recordFault } from '../../../src/service/use-cases/runs/finish-run.ts';
import { type ExportWanted, hourMs, useRunSide } from '../../support/run-side.ts';
import { heal } from '../../../src/service/use-cases/healing/heal.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';

const side = useRunSide({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });

beforeEach(async () => {
  await side.sql`update batch_exports set deleted_at = now()`;
  await side.sql`delete from notification_deliveries`;
  await side.sql`delete from notification_targets`;
});

/** An export since three hours, whose deadlines are judged from its beginning on. */
async function exportWith(wanted: ExportWanted) {
  const made = await side.createExport({ createdMsAgo: 3 * hourMs, ...wanted });
  await side.sql`update export_checks set judged_to = now() - interval '4 hours'`;
  await side.decide();
  return made;
}

/** Targets of the organization and of its first project, which ask for all. */
async function addTargets(): Promise<void> {
  await side.sql`insert into notification_targets (organization_id, team_id, kind, description, format, events)
     select ${side.tenant.organizationId}, team, 'webhook', '', 'json',
            '{interval.at_risk,interval.missed,interval.delivered_late,healing.started,healing.ended}'
       from unnest(array[null, ${side.teamId}]::int[]) team`;
}

const events = () =>
  side.sql<{ type: string; teamId: number | null; facts: Record<string, unknown> }>`
    select type, team_id as "teamId", facts from notification_deliveries order by seq`;

const checkNow = async () => {
  await side.sql`update export_checks set next_check_at = now()`;
  await checkDeadlines(side.context);
};

it('says once per cause and target which deadlines were missed, whatever number of exports', async () => {
  await addTargets();
  // Without the interval that has just ended: in the first minute of an hour its deadline is not over.
  const hour = Math.floor((await readNow(side.db)) / hourMs) * hourMs;
  const wanted = { deadlineMinutes: 1, createdMsAgo: 4 * hourMs, endAt: hour - hourMs };
  const exports = [await exportWith(wanted), await exportWith(wanted)];
  for (const { id } of exports) {
    for (const { id: runId } of await side.listRuns(id)) {
      const error = new SluiceError('source.unavailable');
      await recordFault(side.context, await side.claim(runId), error, 0);
    }
  }
  await checkNow();
  const missed = (await events()).filter(({ type }) => type === 'interval.missed');
  expect(missed.map(({ teamId }) => teamId)).toEqual([null, side.teamId]);
  expect(missed[0]?.facts).toMatchObject({
    cause: { code: 'source.unavailable' },
    fault: 'source',
    turn: 'source',
    export_count: 2,
    interval_count: 6,
  });
  await checkNow();
  expect((await events()).length, 'nothing is said twice').toBe(2);

  const [first] = exports;
  const [run] = await side.listRuns(first?.id ?? '');
  await side.sql`
    with back as (update runs set status = 'Starting', finished_at = null where id = ${run?.id} returning *)
     insert into outbox (run_id, team_id, export_id, data_interval_start) select id, team_id, export_id,
       data_interval_start from back`;
  await side.completeRuns(run?.id);
  await checkNow();
  const late = (await events()).filter(({ type }) => type === 'interval.delivered_late');
  expect(late[0]?.facts).toMatchObject({ turn: null, next_step: null });
  expect(late[0]?.facts).toMatchObject({ export_count: 1, interval_count: 1 });
});

it('judges each interval by itself: what arrives in time is met, and what an operator accepts is not owed', async () => {
  const missed = async (exportId: string) => {
    await checkNow();
    return side.sql.values`
      select api_time(data_interval_start) from late_intervals where export_id = ${exportId}
        and missed_at is not null order by 1`;
  };
  const made = await exportWith({ deadlineMinutes: 90 });
  const [first, , third] = await side.listRuns(made.id);
  await side.completeRuns(third?.id);
  const late = await missed(made.id);
  expect(late[0]).toBe(first?.start);
  expect(late).not.toContain(third?.start);
  const other = await exportWith({ deadlineMinutes: 90 });
  const [accepted] = await side.listRuns(other.id);
  await side.sql`
    insert into accepted_intervals (export_id, data_interval_start, data_interval_end)
      values (${other.id}, ${accepted?.start}, ${accepted?.end})`;
  expect(await missed(other.id)).not.toContain(accepted?.start);
});

it('a new commit of an interval does not make it late, and a deadline counts from the moment at which it was set', async () => {
  const made = await side.createExport({ createdMsAgo: 3 * hourMs, deadlineMinutes: 1 });
  await addTargets();
  await side.decide();
  await checkNow();
  expect(await events(), 'these ticks came before').toEqual([]);
  const [run] = await side.listRuns(made.id);
  await side.completeRuns(run?.id);
  const delivered = () => side.sql`select delivered_at from receipts where export_id = ${made.id}`;
  const before = await delivered();
  await side.sql`
    insert into receipts select (jsonb_populate_record(c,
      '{"generation": 9}')).* from receipts c where export_id = ${made.id}
     on conflict (export_id, data_interval_start, data_interval_end) do update set generation = 9, committed_at = now()`;
  expect(await delivered()).toEqual(before);
});

it('warns so many minutes before a deadline as the export asks for', async () => {
  await addTargets();
  const made = await exportWith({ deadlineMinutes: 4 * 60 });
  const [first] = await side.listRuns(made.id);
  await side.completeRuns(first?.id);
  await checkNow();
  expect(await events()).toEqual([]);
  await side.sql`update batch_exports set warn_minutes = 239 where id = ${made.id}`;
  await checkNow();
  const [risk] = await events();
  expect(risk).toMatchObject({ type: 'interval.at_risk', facts: { turn: 'ours' } });
});

it('owes what is due in a pause that Sluice made, and nothing in one that a person made', async () => {
  const made = await side.createExport({ createdMsAgo: 3 * hourMs, deadlineMinutes: 1 });
  const now = await readNow(side.db);
  const pause = (reason: string | null, from: number, to: number) =>
    side.sql`
      update batch_exports set automatic_pauses = automatic_pauses + tstzmultirange(tstzrange(${toTimestamp(from)},
        ${toTimestamp(to)}, '(]'))
        where id = ${made.id} and ${reason}::text is not null`;
  await side.decide();
  await side.sql`update ticks set fate = 'paused', run_id = null where export_id = ${made.id}`;
  await side.sql`update export_checks set judged_to = now() - interval '4 hours'`;
  const missed = async () => {
    await checkNow();
    return side.sql.value`
      select count(*) from late_intervals where export_id = ${made.id} and missed_at is not null`;
  };
  expect(await missed()).toBe(0);
  // In the first minute of an hour the deadline of the interval that has just ended is not over.
  await pause('destination.access_denied: …', now - 3 * hourMs, now - hourMs);
  expect(await missed()).toBe(2);
  await side.sql`
    update batch_exports set paused = true, paused_reason = 'x: y' where id = ${made.id}`;
  await side.sql`
    update batch_exports set paused = false, paused_reason = null where id = ${made.id}`;
  const spans = await side.sql`
    select upper_inf(span) as "isOpen" from batch_exports, unnest(automatic_pauses) span
      where id = ${made.id}`;
  expect(spans).toEqual([{ isOpen: false }, { isOpen: false }]);
});

describe('causes', () => {
  const { work } = attemptsOf(side);

  beforeEach(async () => {
    await side.sql`update batch_exports set deleted_at = now(), announced_code = null`;
    await side.sql`insert into notification_targets (organization_id, kind, description, format, events)
     values (${side.tenant.organizationId}, 'webhook', '', 'json', '{healing.started,healing.ended}')`;
  });

  const place = placeOf(null);

  /** An export that has failed for two minutes. @returns its id */
  async function brokenExport(healForHours = 168): Promise<string> {
    const { id } = await side.createExport({ createdMsAgo: hourMs });
    await side.db.query(`update batch_exports set heal_for_hours = $2 where id = $1`, [
      ...[id, healForHours],
    ]);
    await side.decide();
    place.error = new SluiceError('destination.invalid_credentials');
    await work([id], place);
    await side.sql`with later as (update holes set next_try_at = now() + interval '1 hour' where export_id = ${id})
     update batch_exports set failing_since = now() - interval '2 minutes' where id = ${id}`;
    return id;
  }

  const events = async (type: string) => {
    const rows = await side.sql<{ exports: readonly { readonly id: string }[] }>`
      select facts->'exports' as exports from notification_deliveries where type = ${type}`;
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
      await side.sql`update holes set next_try_at = now() where export_id = ${id}`;
      await heal(side.context);
      await work([id], place);
      await heal(side.context);
      expect(await events('healing.ended')).toEqual(ended);
    }
    const nothingToDo = await side.sql`
      select from notification_deliveries where type = 'healing.ended' and facts->>'turn' is null
        and facts->>'next_step' is null`;
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
});
