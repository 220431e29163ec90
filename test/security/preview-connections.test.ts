import { beforeAll, expect, test } from 'vitest';
import { ConnectionLimit, createPostgresSource } from '../../src/rows/sources/index.ts';
import { createEmptyDatabase } from '../support/database.ts';
import { createEvents, eventsRequest } from '../support/source-tables.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

const applicationName = 'limited-source';
const most = 2;
const database = useStage(createEmptyDatabase);
beforeAll(() => database.pool.query(createEvents));

function open(connections: ConnectionLimit, signal: AbortSignal) {
  const source = createPostgresSource({
    connectionString: database.url,
    applicationName,
    connections,
  });
  const request = eventsRequest(1, '2024-03-01T00:00:00Z', '2024-03-01T01:00:00Z', {});
  return source.open(request, signal);
}

async function countBackends(waiting: boolean): Promise<number> {
  const { rows } = await database.sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
      where application_name = ${applicationName} and (not ${waiting} or wait_event_type = 'Lock')`;
  return rows[0]?.count ?? 0;
}

test('previews have no more connections than their own, however many are asked for and given up', async () => {
  const connections = new ConnectionLimit(most);
  const locker = await database.pool.connect();
  try {
    await locker.query('begin; lock table events in access exclusive mode');
    let seen = 0;
    for (let round = 0; round < 3; round += 1) {
      const given = new AbortController();
      const asked = Array.from({ length: 6 }, () => open(connections, given.signal));
      const ended = Promise.allSettled(asked);
      await until(async () => {
        seen = Math.max(seen, await countBackends(false));
        return (await countBackends(true)) === most;
      });
      given.abort(new Error('given up'));
      const reasons = (await ended).map((one) => one.status === 'rejected' && String(one.reason));
      expect(reasons).toEqual(Array.from({ length: 6 }, () => 'Error: given up'));
    }
    expect(seen).toBe(most);
  } finally {
    await locker.query('rollback');
    locker.release();
  }
  const later = await open(connections, new AbortController().signal);
  expect(later.totalCount).toBe(0);
  await later.close();
});
