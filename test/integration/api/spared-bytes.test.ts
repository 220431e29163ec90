import { get } from 'node:http';
import { beforeAll, expect, test } from 'vitest';
import { countExportHealths } from '../../../src/state/store/exports/export-lists.ts';
import { checkLateness } from '../../../src/state/store/exports/export-states.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { fillProject } from '../../support/many-exports.ts';

const listed = 50;

const api = useApi();
beforeAll(async () => {
  for (let n = 0; n < listed; n += 1) {
    const made = await api.post(api.exports, exportBody({ name: `Orders of customer ${n}` }));
    expect(made.status, made.text).toBe(201);
  }
  await api.sql`
    insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, created_at, started_at,
      finished_at, attempt, latest_error)
     select e.id, e.team_id, case when n = 1 then 'Failed' else 'Completed' end, at, at + interval '1 hour', ended,
       ended, ended, 1,
            case when n = 1 then 'destination.denied: Access denied. Allow the key to write.' end
       from batch_exports e, generate_series(1, 10) n,
         lateral (select date_trunc('hour', now()) - n * interval '1 hour' as at) t,
           lateral (select at + random() * interval '1 hour' as ended) d`;
});

/** Bytes of an answer on the wire. A client of a lower level: `fetch` unpacks. */
function onTheWire(path: string, coding: string) {
  const headers = { authorization: `Bearer ${api.tenant.key}`, 'accept-encoding': coding };
  return new Promise<{ bytes: number; coding: string | undefined }>((resolve, reject) => {
    get(`${api.baseUrl}${path}`, { headers }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      const packed = response.headers['content-encoding'];
      response.on('end', () => resolve({ bytes, coding: packed }));
    }).on('error', reject);
  });
}

test('a page of the short form has at most 20 kB on the wire', async () => {
  const path = `${api.exports}/summaries?limit=${listed}`;
  for (const coding of ['br', 'gzip'] as const) {
    const sent = await onTheWire(path, coding);
    expect(sent.coding).toBe(coding);
    expect(sent.bytes).toBeLessThanOrEqual(20_000);
  }
  const whole = await onTheWire(`${api.exports}?limit=${listed}`, 'identity');
  const short = await onTheWire(path, 'identity');
  expect([whole.coding, short.coding]).toEqual([undefined, undefined]);
  expect(short.bytes).toBeLessThan(whole.bytes / 2);
  expect((await onTheWire(path, 'br;q=0')).coding).toBeUndefined();
});

test('the short form says the same as the whole one, page by page', async () => {
  for (const query of ['limit=7&offset=7', 'health=failing&ordering=name', 'search=customer%204']) {
    const [whole, short] = await Promise.all(
      ['', '/summaries'].map((path) => api.get(`${api.exports}${path}?${query}`)),
    );
    expect(short?.body.count).toBe(whole?.body.count);
    for (const [at, one] of (short?.body.results ?? []).entries()) {
      const same = whole?.body.results[at];
      const { destination, latest_runs: runs, ...facts } = one;
      expect(same).toMatchObject(facts);
      expect(same?.destination.type).toBe(destination.type);
      expect(same?.destination.config).toMatchObject(destination.config);
      expect(runs.map(({ id }) => id)).toEqual(same?.latest_runs.map(({ id }) => id));
      expect(runs[0]?.latest_error).toBe('destination.denied');
    }
  }
});

test('only answers without rows, logs and secrets are compressed', async () => {
  const { results } = (await api.get(`${api.exports}/summaries?limit=1`)).body;
  for (const path of ['/logs', '/preview', '/activity']) {
    expect(
      (await onTheWire(`${api.exports}/${results[0]?.id}${path}`, 'br')).coding,
    ).toBeUndefined();
  }
});

test('a 304 says that nothing has changed, and never hides a change', async () => {
  const [first, second] = api.tenant.projectIds;
  const path = `/api/projects/@current/batch_exports/summaries?limit=3`;
  const keyOf = (projectId = 0) => api.withNewKey({ projectIds: [projectId] });
  const client = await keyOf(first);
  let etag = '';
  /** The status with the last tag; takes the new one. */
  const ask = async (by = client) => {
    const answer = await by.get(path, { headers: { 'if-none-match': `"other", ${etag}` } });
    if (answer.status === 304) expect(answer.text).toBe('');
    else if (by === client) etag = String(answer.headers.get('etag'));
    return answer.status;
  };
  expect([await ask(), await ask()]).toEqual([200, 304]);

  const [newest] = (await client.get(path)).body.results;
  await api.patch(`${api.exports}/${newest?.id}`, { name: 'Another name' });
  expect([await ask(), await ask()]).toEqual([200, 304]);

  // Its health changes, because time goes by.
  await api.sql`
    update batch_exports set high_water_mark = now() - interval '5 hours' where id = ${newest?.id}`;
  await ask();
  await checkLateness(api.db);
  expect([await ask(), await ask()]).toEqual([200, 304]);

  // Another key sees what it may see.
  expect(await ask(await keyOf(second))).toBe(200);
  expect(await ask(api.client)).not.toBe(304);
  expect(await ask(api.withKey('slc_unknown'))).toBe(401);
  const anyTag = await client.get(path, { headers: { 'if-none-match': '*' } });
  expect(anyTag.status).toBe(200);
});

test('the count by health looks at each export once', async () => {
  const { organizationId, projectIds } = api.tenant;
  const teamId = Number(projectIds[1]);
  await api.db.query(fillProject, [teamId]);
  await api.sql`analyze`;
  let plan = '';
  const explaining = {
    query: async (text: string, values: readonly unknown[]) => {
      const lines = await api.db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
      plan = lines.map((line) => line['QUERY PLAN']).join('\n');
      return [{}];
    },
  };
  await countExportHealths(explaining as never, { organizationId, teamId });
  // Not once for each health.
  expect(plan.match(/ on holes /g)).toHaveLength(1);
});
