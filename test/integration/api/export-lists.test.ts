import { beforeAll, describe, expect, test } from 'vitest';
import { exportHealths } from '../../../src/foundation/domain/batch-export.ts';
import { acceptIntervals } from '../../../src/state/store/intervals/coverage.ts';
import { checkLateness } from '../../../src/state/store/exports/export-states.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody } from '../../support/batch-export-bodies.ts';
import { cliEnv, runCli } from '../../support/cli.ts';
import { atNight } from '../../support/nightly.ts';
import { get } from 'node:http';
import { countExportHealths } from '../../../src/state/store/exports/export-lists.ts';

/** How many exports of `fillProject` have which health. */
const filledCounts = {
  total: 5_000,
  failing: 4,
  late: 3,
  incomplete: 2,
  paused: 2,
  fine: 4_989,
} as const;

/** Name of the nth export. */
const filledName = (n: number): string => `Export ${String(n).padStart(4, '0')}`;

/**
 * A statement that gives the project `$1` 5,000 hourly exports and 10,000 runs: one of each export, and the rest of
 * Export 0012. Exports 1 to 4 are failing (Sluice paused the fourth), 5 to 7 are late,
 * 8 and 9 have a hole, and a person paused 10 and 11. The runs are the older, the higher the number.
 */
const fillProject = `
  with hour as materialized (select date_trunc('hour', now(), 'UTC') as at, (extract(epoch from date_trunc('hour', now(), 'UTC')) * 1000)::bigint as ms),
  made as (
    insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at,
           created_at, high_water_mark, last_success_at, failing_since, failure_streak, late_since,
           paused, paused_reason)
    select $1::int, 'Export ' || lpad(n::text, 4, '0'), 'NoOp', '{}', 'hour',
           jsonb_build_object('cadences', '[{"since":null,"cadence":{"interval":"hour","timezone":"UTC","offsetDay":null,"offsetHour":null}}]'::jsonb,
             'gates', jsonb_build_array(jsonb_build_object('since', ms - 3600000, 'pausedSince', null, 'startAt', null, 'endAt', null)),
             'openIntervalStart', ms, 'nextTickAt', ms + 3600000),
           at + interval '1 h', at - interval '30 days' - n * interval '1 min',
           case when n in (5, 6, 7) then at - interval '5 h' else at end, now() - interval '1 h',
           case when n <= 4 then now() - interval '2 h' end, case when n <= 4 then 1 else 0 end,
           case when n in (5, 6, 7) then now() - interval '3 h' end,
           n in (4, 10, 11), case when n = 4 then 'Paused after 10 failures.' end
      from generate_series(1, 5000) n, hour
    returning id, team_id, substr(name, 8)::int as n),
  hollow as (
    insert into holes (export_id, data_interval_start, data_interval_end)
    select id, at - interval '9 h', at - interval '8 h' from made, hour where n in (8, 9))
  insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, created_at, finished_at, error_code, latest_error)
  select id, team_id, case when n <= 4 then 'Failed' else 'Completed' end, start, start + interval '1 h',
         start + interval '2 h' - n * interval '1 s', now(), case when n <= 4 then 'destination.denied' end,
         case when n <= 4 then 'destination.denied: Access denied. Allow the key to write.' end
    from made, hour, lateral generate_series(1, case when n = 12 then 5001 else 1 end) ago,
         lateral (select at - ago * interval '1 h' as start) h`;

const api = useApi();
beforeAll(async () => {
  await api.db.query(fillProject, [api.teamId]);
  await api.sql`vacuum analyze batch_exports`;
});

async function list(query: string, base = api.exports) {
  const { status, body } = await api.get(`${base}?${query}`);
  expect([status, body.detail]).toEqual([200, undefined]);
  return { count: body.count, names: body.results.map(({ name }) => name), body };
}

const names = (...numbers: readonly number[]) => numbers.map(filledName);

describe('health', () => {
  test('the counts add up, and each is that of the list with this filter', async () => {
    const { body } = await api.get(`${api.exports}/health`);
    expect(body).toEqual(filledCounts);
    for (const health of exportHealths) {
      const { count, body: page } = await list(`health=${health}&limit=3`);
      expect([health, count]).toEqual([health, filledCounts[health]]);
      expect(page.results.every((item) => item.health === health)).toBe(true);
    }
  });

  test('a paused export is failing only if Sluice paused it', async () => {
    const { names: failing } = await list('health=failing&ordering=name');
    expect(failing).toEqual(names(1, 2, 3, 4));
    const { names: paused } = await list('health=paused&ordering=name');
    expect(paused).toEqual(names(10, 11));
  });

  test('late is by the deadline, or without one by two intervals', async () => {
    expect((await list('health=late&ordering=name')).names).toEqual(names(5, 6, 7));
  });

  test('is the same in an export itself, from its creation on', async () => {
    // The first project is full.
    const others = `/api/projects/${api.tenant.projectIds[1]}/batch_exports`;
    const made = (await api.post(others, exportBody())).body;
    expect(made.health).toBe('fine');
    const path = `${others}/${made.id}`;
    const health = async () => {
      await checkLateness(api.db);
      return (await api.get(path)).body.health;
    };
    const change = (sql: string) =>
      api.db.query(`update batch_exports set ${sql} where id = $1`, [made.id]);
    await change(`created_at = now() - interval '2 hours'`);
    expect(await health()).toBe('fine');
    await change(`created_at = now() - interval '127 minutes'`);
    expect(await health()).toBe('late');
    await change(`end_at = now() - interval '1 hour'`);
    expect(await health()).toBe('fine');
    await change(`end_at = null`);
    expect(await health()).toBe('late');
    // A deadline says by itself when data is late.
    await change(`deadline_minutes = 600`);
    expect(await health()).toBe('fine');
    await api.sql`
      insert into late_intervals (export_id, data_interval_start, data_interval_end, due_by, missed_at, turn)
       select ${made.id}, at - interval '20 hours', at - interval '19 hours', at, at, 'ours'
         from (select date_trunc('hour', now(), 'UTC') as at) t`;
    expect(await health()).toBe('late');
    expect((await api.get(path)).body.health_reason).toMatch(
      /misses its deadline since .*:00:00Z\.$/,
    );
    const [interval] = await api.sql<{ start: string; end: string }>`
      select api_time(data_interval_start) as start, api_time(data_interval_end) as "end" from late_intervals
        where export_id = ${made.id}`;
    await acceptIntervals(api.db, made.id, [
      { start: Date.parse(String(interval?.start)), end: Date.parse(String(interval?.end)) },
    ]);
    expect(await health()).toBe('fine');
    expect((await api.post(`${path}/pause`)).body.health).toBe('paused');
    await api.delete(path);
    expect((await api.get(`${others}/health`)).body.total).toBe(0);
  });

  test('its reason is that of the failure, not of the newest attempt, and the same on the command line', async () => {
    const others = `/api/projects/${api.tenant.projectIds[1]}/batch_exports`;
    const { id } = (await api.post(others, exportBody())).body;
    const run = (ago: number, error: string) =>
      api.sql`
        insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, latest_error, error_code)
         select id, team_id, 'Running', at, at + interval '1 hour', ${error} || ': It said so.', ${error}
           from batch_exports, lateral (select date_trunc('hour', now(), 'UTC') - ${ago} * interval '1 hour' as at) t
             where id = ${id}`;
    const read = async () => {
      const { health, health_reason: reason } = (await api.get(`${others}/${id}`)).body;
      return [health, reason];
    };
    expect(await read()).toEqual(['fine', null]);
    await run(5, 'destination.access_denied');
    await api.sql`update runs set status = 'Failed', finished_at = now() where export_id = ${id}`;
    await run(4, 'source.timeout');
    const reason = 'destination.access_denied: It said so.';
    expect(await read()).toEqual(['failing', reason]);
    const env = { ...cliEnv(api), SLUICE_PROJECT: String(api.tenant.projectIds[1]) };
    const { attention } = JSON.parse((await runCli(['status', '--json'], { env })).out);
    expect(attention).toMatchObject([{ id, state: 'failing', reason }]);

    await api.sql`
      update batch_exports set last_success_at = now(), failing_since = null, failing_code = null
        where id = ${id}`;
    expect(await read()).toEqual([
      'incomplete',
      expect.stringMatching(/^1 requested interval has no data, the oldest since .*Z\.$/),
    ]);
    await api.sql`delete from holes where export_id = ${id}`;
    await api.sql`
      update batch_exports set created_at = now() - interval '130 minutes' where id = ${id}`;
    await checkLateness(api.db);
    expect(await read()).toEqual([
      'late',
      expect.stringMatching(/^No interval is complete .* is late since .*Z\.$/),
    ]);
    const late = await runCli(['status', '--check'], { env });
    expect(late.code).toBe(1);
    expect(late.out).toMatch(/1 late/);
    await api.post(`${others}/${id}/pause`);
    expect(await read()).toEqual(['paused', 'A person paused it.']);
    await api.delete(`${others}/${id}`);
  });

  test('a hole is no hole while a run of its interval is live', async () => {
    const { body } = await list(`search=${filledName(8).replace(' ', '%20')}`);
    const id = body.results[0]?.id;
    await api.sql`insert into runs (export_id, team_id, status, data_interval_start, data_interval_end)
       select export_id, ${api.teamId}, 'Starting', data_interval_start, data_interval_end from holes
         where export_id = ${id}`;
    expect((await api.get(`${api.exports}/${id}`)).body.health).toBe('fine');
    expect((await list('health=incomplete')).names).toEqual(names(9));
    await api.sql`delete from runs where export_id = ${id} and status = 'Starting'`;
  });
});

describe('search and order', () => {
  test('search finds a part of the name, whatever its case, and a whole id', async () => {
    const { count, names: found, body } = await list('search=pORT%20499&ordering=name');
    expect([count, found]).toEqual([10, names(...Array.from({ length: 10 }, (_, n) => 4_990 + n))]);
    const id = String(body.results[3]?.id);
    expect((await list(`search=${id.toUpperCase()}`)).names).toEqual(names(4_993));
    expect((await list('search=no%20such')).count).toBe(0);
  });

  test.each(['%25', '_', '%5C', "'"])('%s in a search is that character', async (text) => {
    expect((await list(`search=${text}`)).count).toBe(0);
  });

  test.each([
    ['name', [1, 2]],
    ['-name', [5_000, 4_999]],
    ['created_at', [5_000, 4_999]],
    ['-created_at', [1, 2]],
    ['health', [1, 2]],
    ['-last_run', [1, 2]],
    ['last_run', [5_000, 4_999]],
  ])('by %s', async (ordering, first) => {
    const { count, names: found } = await list(`ordering=${ordering}&limit=2`);
    expect([count, found]).toEqual([5_000, names(...first)]);
  });

  atNight.each(['ordering=name', 'ordering=-last_run', 'ordering=health&search=export'])(
    'the pages of %s have each export once',
    async (query) => {
      const seen: unknown[] = [];
      // A page of large items ends early.
      let page = await list(`${query}&limit=1000`);
      while (page.names.length > 0) {
        seen.push(...page.names);
        page = await list(`${query}&limit=1000&offset=${seen.length}`);
      }
      expect(new Set(seen).size).toBe(5_000);
      expect(seen).toHaveLength(5_000);
      const beyond = await list(`${query}&offset=6000`);
      expect([beyond.count, beyond.names, beyond.body.next]).toEqual([5_000, [], null]);
    },
  );
});

test('the count by health looks at each export once', async () => {
  const { organizationId } = api.tenant;
  await api.sql`analyze`;
  let plan = '';
  const explaining = {
    query: async (text: string, values: readonly unknown[]) => {
      const lines = await api.db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
      plan = lines.map((line) => line['QUERY PLAN']).join('\n');
      return [{}];
    },
  };
  await countExportHealths(explaining as never, { organizationId, teamId: api.teamId });
  // Not once for each health.
  expect(plan.match(/ on holes /g)).toHaveLength(1);
});

test('a key says whether it has all projects', async () => {
  const narrowed = await api.withNewKey({ projectIds: [api.teamId] });
  expect((await narrowed.get('/api/me')).body.all_projects).toBe(false);
  expect((await api.get('/api/me')).body.all_projects).toBe(true);
});

describe('lists that spare bytes', () => {
  const api = useApi();
  const listed = 50;

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
        response.on('data', (chunk: Buffer) => (bytes += chunk.length));
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
    const pages = ['limit=7&offset=7', 'health=failing&ordering=name', 'search=customer%204'];
    for (const query of pages) {
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
    expect((await client.get(path, { headers: { 'if-none-match': '*' } })).status).toBe(200);
  });
});
