import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../../src/foundation/config/config.ts';
import { loadModels } from '../../../src/main/models.ts';
import { previewsOf } from '../../../src/main/preview-rows.ts';
import { ConnectionLimit, ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { buildApi } from '../../../src/service/api/build-api.ts';
import { useApi } from '../../support/api-under-test.ts';
import { exportBody, s3 } from '../../support/batch-export-bodies.ts';
import { createEmptyDatabase, testServer } from '../../support/database.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { testSecrets } from '../../support/test-secrets.ts';

const api = useApi();
beforeAll(async () => {
  await ensureEventsTable(api.databaseUrl);
});

/** `count` events of a project, a second apart, the last one so long ago. */
async function insertEvents(teamId: number, event: string, count: number, agoMinutes = 1) {
  await api.sql`insert into events (uuid, team_id, event, distinct_id, properties, inserted_at)
     select gen_random_uuid(), ${teamId}, ${event}, 'user ' || n, '{"n": 9007199254740993, "half": 0.5}',
            date_trunc('second', now()) - ${agoMinutes} * interval '1 minute' - (${count} - n) * interval '1 second'
       from generate_series(1, ${count}::int) n`;
}

async function preview(changes: Readonly<Record<string, unknown>> = {}) {
  const body = await api.create(changes);
  const answer = await api.get(`${api.exports}/${body.id}/preview`);
  const columns = answer.body.columns as readonly { name: string; type: string }[];
  const rows = answer.body.rows as readonly (readonly unknown[])[];
  const valuesOf = (name: string) =>
    rows.map((row) => row[columns.findIndex((column) => column.name === name)]);
  return { ...answer, columns, rows, valuesOf };
}

describe('the row preview', () => {
  test('of a project without rows has the columns and no row', async () => {
    const { status, columns, rows } = await preview();
    expect(status).toBe(200);
    expect(columns.map(({ name }) => name)).toEqual([
      'uuid',
      'event',
      'properties',
      'distinct_id',
      'person_id',
      'person_properties',
      'elements_chain',
      'timestamp',
      'created_at',
      'inserted_at',
    ]);
    expect(columns[0]).toEqual({ name: 'uuid', type: 'uuid' });
    expect(columns[2]).toEqual({ name: 'properties', type: 'jsonb' });
    expect(columns[9]).toEqual({ name: 'inserted_at', type: 'timestamp with time zone' });
    expect(rows).toEqual([]);
  });

  test('gives at most 100 rows, in order of arrival, and never one of another project', async () => {
    const [own, sibling] = api.tenant.projectIds;
    await insertEvents(own, 'ours', 130);
    await insertEvents(sibling, 'canary of a sibling', 200);
    const { rows, valuesOf, text } = await preview();
    expect(rows).toHaveLength(100);
    expect(new Set(valuesOf('event'))).toEqual(new Set(['ours']));
    expect(text).not.toContain('canary');
    const arrivals = valuesOf('inserted_at').map(String);
    expect(arrivals).toEqual(arrivals.toSorted());
    expect(arrivals[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    // As the file says it: a client's JSON.parse would round the number.
    expect(valuesOf('properties')[0]).toEqual({ n: '9007199254740993', half: 0.5 });
    expect(valuesOf('person_id')[0]).toBeNull();
  });

  test('shows the newest rows of a busy hour, not the first ones of it', async () => {
    const [teamId] = api.tenant.projectIds;
    await insertEvents(teamId, 'busy', 3_000, 0);
    const { valuesOf } = await preview({ destination: s3({ include_events: ['busy'] }) });
    const newest = Array.from({ length: 100 }, (_, n) => `user ${2_901 + n}`);
    expect(valuesOf('distinct_id')).toEqual(newest);
    // A step that drops most rows: older ones take their place.
    const path = `${api.project}/pipeline_transformation_configs`;
    const plugins = `/api/organizations/${api.tenant.organizationId}/plugins`;
    const source = `export function processEvent(event) { return Number(event.distinct_id.slice(5)) % 20 === 0 ? event : null; }`;
    const { body: plugin } = await api.post(plugins, { name: 'Each twentieth', source });
    const step = { plugin: plugin.id, order: 1, enabled: true };
    const { body: made } = await api.post(path, step);
    const kept = await preview({
      transformations: true,
      destination: s3({ include_events: ['busy'] }),
    });
    const twentieth = Array.from({ length: 100 }, (_, n) => `user ${1_020 + 20 * n}`);
    expect(kept.valuesOf('distinct_id'), kept.text).toEqual(twentieth);
    await api.delete(`${path}/${made.id}`);
    await api.sql`delete from events where event = 'busy'`;
  });

  test('holds to the dsl_query and its columns', async () => {
    const { columns, rows } = await preview({
      dsl_query:
        "select upper(event) as loud, properties.half as half from events where distinct_id = 'user 7'",
    });
    expect(columns.map(({ name }) => name)).toEqual(['loud', 'half']);
    expect(rows).toEqual([['OURS', expect.anything()]]);
    expect(Number(rows[0]?.[1])).toBe(0.5);
  });

  test('has infinite times as the export writes them', async () => {
    await insertEvents(api.teamId, 'endless', 1);
    await api.sql`update events set timestamp = 'infinity' where event = 'endless'`;
    const shown = async (infinity: string) => {
      const chosen = { include_events: ['endless'], infinity };
      return (await preview({ destination: s3(chosen) })).valuesOf('timestamp');
    };
    expect(await shown('reject')).toEqual(['infinity']);
    expect(await shown('null')).toEqual([null]);
    expect(await shown('limit')).toEqual(['9999-12-31T23:59:59.999999Z']);
  });

  test('of JSON that is too deep is refused with the row and the remedy, alone and with a chain', async () => {
    const [teamId] = api.tenant.projectIds;
    await insertEvents(teamId, 'deep', 1);
    const deepen = (levels: number) =>
      api.sql`
        update events set properties = (repeat('{"a":', ${levels}) || '1' || repeat('}', ${levels}))::jsonb
          where event = 'deep'`;
    const shown = (transformations: boolean) =>
      preview({ transformations, destination: s3({ include_events: ['deep'] }) });
    await deepen(5_000);
    for (const transformations of [false, true]) {
      const { status, body } = await shown(transformations);
      expect(status).toBe(400);
      expect(body.detail).toMatch(
        /^source\.json_too_deep: .*column properties of the row with the key \{"uuid".*In dsl_query/,
      );
    }
    const lab = await api.post(`${api.exports}/preview`, {
      configs: [{ plugin: 1, config: { properties: 'x' } }],
      limit: 50,
      trace: true,
    });
    expect([lab.status, lab.body.detail]).toEqual([400, expect.stringMatching(/json_too_deep/)]);
    await deepen(999);
    expect((await shown(false)).status).toBe(200);
    await api.sql`delete from events where event = 'deep'`;
  });

  test('reaches back as far as the rows lie', async () => {
    const year = 365 * 24 * 60;
    await insertEvents(api.teamId, 'old', 2, 3 * year);
    const { valuesOf } = await preview({ destination: s3({ include_events: ['old'] }) });
    expect(valuesOf('event')).toEqual(['old', 'old']);
  });

  test('is stopped if the source takes too long', async () => {
    const { db, databaseUrl, client, tenant } = api;
    const models = loadModels(readConfig({}));
    const context = { db, secrets: testSecrets() };
    const { previewRows } = previewsOf(
      {
        config: readConfig({}),
        models,
        context,
        databases: { sourceUrl: databaseUrl },
        sourceConnections: new ConnectionLimit(8),
      },
      300,
    );
    const hurried = await buildApi(testApiOptions(db, databaseUrl, { previewRows }));
    const made = await client.post(api.exports, exportBody());
    onTestFinished(() => hurried.close());
    await db.transaction(async (tx) => {
      await tx.query('lock table events in access exclusive mode');
      const { statusCode, body } = await hurried.inject({
        url: `${api.exports}/${made.body.id}/preview`,
        headers: { authorization: `Bearer ${tenant.key}` },
      });
      expect(statusCode).toBe(503);
      expect(body).toContain('source.timeout');
    });
  });

  test('of a source whose encoding is unknown is refused with the reason', async () => {
    const ascii = await createEmptyDatabase(testServer(), "encoding 'SQL_ASCII' locale 'C'");
    const { db, databaseUrl, client, tenant } = api;
    const { url } = ascii;
    const context = { db, secrets: testSecrets() };
    const models = loadModels(readConfig({}));
    const { previewRows } = previewsOf({
      config: readConfig({}),
      models,
      context,
      databases: { sourceUrl: url },
      sourceConnections: new ConnectionLimit(8),
    });
    const beside = await buildApi(testApiOptions(db, databaseUrl, { previewRows }));
    onTestFinished(async () => {
      await beside.close();
      await ascii.drop();
    });
    await ensureEventsTable(url);
    const made = await client.post(api.exports, exportBody());
    const answer = await beside.inject({
      url: `${api.exports}/${made.body.id}/preview`,
      headers: { authorization: `Bearer ${tenant.key}` },
    });
    expect(answer.statusCode, answer.body).toBe(400);
    expect(answer.json().detail).toMatch(/^source\.unsupported: .*SQL_ASCII/);
  });

  test('says what is wrong with the source as a run would', async () => {
    await api.sql`alter table events rename column elements_chain to renamed`;
    onTestFinished(async () => {
      await api.sql`alter table events rename column renamed to elements_chain`;
    });
    expect(await preview()).toMatchObject({
      status: 400,
      body: {
        type: 'validation_error',
        code: 'invalid_input',
        detail: expect.stringContaining('source.relation_missing'),
      },
    });
  });
});
