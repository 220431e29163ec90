import { beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import type { ApiClient } from '../support/api-client.ts';
import { useApi } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { createTenant } from '../support/tenants.ts';
import { until } from '../support/until.ts';

const api = useApi();
beforeAll(() => ensureEventsTable(api.databaseUrl));

async function previewPath(exports = api.exports, client: ApiClient = api.client, changes = {}) {
  const { body } = await client.post(exports, exportBody(changes));
  return `${exports}/${body.id}/preview`;
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
      [one, two].map((id) => previewPath(`/api/projects/${id}/batch_exports`)),
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
        const client = api.withKey(key);
        return {
          client,
          path: await previewPath(`/api/projects/${projectIds[0]}/batch_exports`, client),
        };
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
  const answer = await api.client.get(await previewPath(api.exports, api.client, without));
  expect(answer.body.rows).toEqual([['x']]);
});

test('a body of many wrong items is refused by its length, before its items', async () => {
  const names = Array.from({ length: 400_000 }, () => 0);
  const config = { ...exportBody().destination.config, include_events: names };
  const destination = { ...exportBody().destination, config };
  const { status, body } = await api.client.post(api.exports, exportBody({ destination }));
  expect(status).toBe(400);
  expect(body.errors).toEqual([
    expect.objectContaining({
      code: 'max_length',
      attr: 'destination__config__include_events',
      detail: 'Must have at most 1000 items.',
    }),
  ]);
});
