import { beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import { createApiClient } from '../support/api-client.ts';
import { startApiUnderTest } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const api = useStage(startApiUnderTest);
beforeAll(() => ensureEventsTable(api.databaseUrl));

async function previewPath(
  client = api.client,
  project = api.project,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const { body } = await client.post(`${project}/batch_exports`, exportBody(changes));
  return `${project}/batch_exports/${body.id}/preview`;
}

/** Connections of previews that wait for the lock on `events`. */
async function countWaiting(): Promise<number> {
  const [found] = await api.sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
      where application_name = 'sluice-preview' and datname = current_database()
        and wait_event_type = 'Lock'`;
  return found?.count ?? 0;
}

/** While `work` runs, no preview comes to its end by itself. */
async function whileLocked<T>(work: () => Promise<T>): Promise<T> {
  return api.db.transaction(async (tx) => {
    await tx.query('lock table events in access exclusive mode');
    return work();
  });
}

describe('previews at the same time', () => {
  test('of all projects of one organization are two', async () => {
    const [one, two] = api.tenant.projectIds;
    const paths = await Promise.all(
      [one, two].map((id) => previewPath(api.client, `/api/projects/${id}`)),
    );
    const many: Promise<{ status: number }>[] = [];
    await whileLocked(async () => {
      const early: number[] = [];
      for (const path of Array.from({ length: 6 }, () => paths).flat()) {
        const answer = api.client.get(path);
        many.push(answer);
        void answer.then(({ status }) => early.push(status));
      }
      // Two are answered later, four wait: the limits are not those of each project.
      await until(async () => early.length === 6 && (await countWaiting()) === 2);
      expect(early).toEqual(Array(6).fill(429));
    });
    const statuses = (await Promise.all(many)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(6);
  });

  test('of all organizations are eight', async () => {
    const tenants = await Promise.all(Array.from({ length: 6 }, () => createTenant(api.db)));
    const paths = await Promise.all(
      tenants.map(async ({ key, projectIds }) => {
        const client = createApiClient(api.baseUrl, key);
        return { client, path: await previewPath(client, `/api/projects/${projectIds[0]}`) };
      }),
    );
    const many: Promise<{ status: number }>[] = [];
    await whileLocked(async () => {
      for (const { client, path } of paths) many.push(client.get(path), client.get(path));
      await until(async () => (await countWaiting()) === 8);
    });
    expect(new Set((await Promise.all(many)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  test('free their place as soon as the client is gone', async () => {
    const path = await previewPath();
    await whileLocked(async () => {
      const leaving = new AbortController();
      const abandoned = Array.from({ length: 6 }, () =>
        fetch(`${api.baseUrl}${path}`, {
          headers: { authorization: `Bearer ${api.tenant.key}` },
          signal: leaving.signal,
        }).catch(() => null),
      );
      await until(async () => (await countWaiting()) === 2);
      leaving.abort();
      await Promise.all(abandoned);
      await until(async () => (await countWaiting()) === 0);
    });
    expect((await api.client.get(path)).status).toBe(200);
  });
});

test('a row of more than 1 MiB is no row of a preview', async () => {
  await api.sql`insert into events (uuid, team_id, event, distinct_id, inserted_at) values
    (gen_random_uuid(), ${api.tenant.projectIds[0]}, repeat('a', 1100000), 'x', now()
    - interval '1 minute')`;
  const { status, body } = await api.client.get(await previewPath());
  expect(status).toBe(400);
  expect(body.detail).toContain('query.invalid');
  expect(body.detail).toContain('has more than 1 MiB, too much for a preview');
  const without = { dsl_query: 'select distinct_id from events' };
  const answer = await api.client.get(await previewPath(api.client, api.project, without));
  expect(answer.body.rows).toEqual([['x']]);
});

test('a body of many wrong items is refused by its length, before its items', async () => {
  const names = Array.from({ length: 400_000 }, () => 0);
  const config = { ...exportBody().destination.config, include_events: names };
  const destination = { ...exportBody().destination, config };
  const { status, body } = await api.client.post(
    `${api.project}/batch_exports`,
    exportBody({ destination }),
  );
  expect(status).toBe(400);
  expect(body.errors).toEqual([
    expect.objectContaining({
      code: 'max_length',
      attr: 'destination__config__include_events',
      detail: 'Must have at most 1000 items.',
    }),
  ]);
});
