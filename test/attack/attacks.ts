import fc from 'fast-check';
import type { Pool } from 'pg';
import { mintApiKey } from '../../src/foundation/security/api-keys.ts';
import { hostileExpression } from '../security/hostile-queries.ts';
import type { ApiAnswer, ApiClient } from '../support/api-client.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { insertEvents } from '../support/exported-events.ts';
import { kindsOfAttack } from './kinds.ts';
import { ownPluginAttacks } from './own-plugins.ts';
import { strangerAttacks } from './strangers.ts';

/** Whom the attacks use: the attacker's own projects and stores. */
export interface Target {
  readonly organizationId: string;
  readonly projectIds: readonly [number, number];
  readonly stores: readonly string[];
  readonly pool: Pool;
}

/** One request, or few. `turn` rises: choose among variants by it. */
export type Attack = (client: ApiClient, turn: number) => Promise<ApiAnswer>;

/** By the class of the threat model (A to G) and what each does. */
export type Attacks = Readonly<Record<string, Attack>>;

const range = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-02T00:00:00Z' };

/** Prepares rows and exports of the attacker, and gives its attacks. */
export async function attacksOf(target: Target, owner: ApiClient): Promise<Attacks> {
  await insertRows(target);
  const made = await createExports(target, owner);
  const project = (turn: number) => `/api/projects/${pick(target.projectIds, turn)}`;
  const exportsOf = (turn: number) => `${project(turn)}/batch_exports`;
  const lab = (turn: number) => `${exportsOf(turn)}/preview`;
  const queries = hostileQueries();
  const bodies = largeBodies();
  const create = (client: ApiClient, turn: number, body: object) =>
    client.post(exportsOf(turn), exportBody({ paused: true, ...body }));
  return {
    'A query that grows or never stops, created and previewed': async (client, turn) => {
      const answer = await create(client, turn, { dsl_query: pick(queries, turn) });
      if (answer.status !== 201) return answer;
      const path = `${exportsOf(turn)}/${answer.body.id}`;
      const preview = await client.get(`${path}/preview`);
      await client.delete(path);
      return preview;
    },
    'A preview of huge rows': (client, turn) => client.get(`${pick(made.heavy, turn)}/preview`),
    'A runs of huge rows, with hostile queries': (client, turn) =>
      client.post(`${pick(made.heavy, turn)}/backfill`, range),
    'A body of 1 MiB with faults': (client, turn) =>
      client.post(exportsOf(turn), undefined, {
        raw: pick(bodies, turn),
        headers: { 'content-type': 'application/json' },
      }),
    'B runs at hostile stores': (client, turn) =>
      client.post(`${pick(made.hostile, turn)}/backfill`, range),
    'B test of a hostile store': (client, turn) => client.post(`${pick(made.hostile, turn)}/test`),
    'B store whose name is never answered': async (client, turn) => {
      const endpoint = `http://n${turn}-${Math.random()}.silent.example`;
      const config = { destination: { config: { endpoint_url: endpoint } } };
      await client.patch(pick(made.silent, turn), config);
      return client.post(`${pick(made.silent, turn)}/test`);
    },
    'C damage: the same directory, secrets sent again': (client, turn) =>
      client.patch(pick(made.hostile, turn), {
        destination: { config: { aws_secret_access_key: 'x'.repeat(10_000) } },
      }),
    'D filters and configs of 60 KiB': async (client, turn) => {
      const names = Array.from({ length: 100 }, (_, n) => `${n}${'n'.repeat(190)}`);
      const destination = s3({ include_events: names, exclude_events: names });
      return create(client, turn, { destination, name: 'n'.repeat(400) });
    },
    'D backfill of 100,000 intervals, cancelled': async (client, turn) => {
      const long = { start_at: '2013-01-01T00:00:00Z', end_at: '2024-01-01T00:00:00Z' };
      const path = pick(made.noOp, turn);
      const answer = await client.post(`${path}/backfill`, long);
      if (answer.status === 200 && turn % 3 === 0) {
        await client.post(`${path}/backfills/${answer.body.backfill_id}/cancel`, {});
      }
      return answer;
    },
    'D dry run of 90,000 intervals': (client, turn) => {
      const long = { start_at: '2014-01-01T00:00:00Z', end_at: '2024-01-01T00:00:00Z' };
      return client.post(`${pick(made.noOp, turn)}/backfill`, { ...long, dry_run: true });
    },
    'D pages of 1,000': (client, turn) => {
      const lists = [
        `${exportsOf(turn)}?limit=1000`,
        `${pick(made.hostile, turn)}/activity?limit=1000`,
        `${pick(made.noOp, turn)}/runs?limit=1000`,
        `${pick(made.heavy, turn)}/logs?limit=1000&search=a`,
      ];
      return client.get(pick(lists, turn));
    },
    'E wrong keys': async (client) => {
      const many = Array.from({ length: 8 }, () =>
        client.withKey(mintApiKey()).get('/api/projects/@current/batch_exports'),
      );
      return (await Promise.all(many))[0] as ApiAnswer;
    },
    'E readiness and metrics': (client, turn) =>
      client.withKey(null).get(turn % 2 === 0 ? '/readyz' : '/metrics'),
    'F lab: 1 MiB in 50 steps': (client, turn) =>
      client.post(lab(turn), undefined, {
        raw: pick(labBodies.large, turn),
        headers: { 'content-type': 'application/json' },
      }),
    'F lab: as much as is allowed': (client, turn) =>
      client.post(lab(turn), undefined, {
        raw: pick(labBodies.allowed, turn),
        headers: { 'content-type': 'application/json' },
      }),
    'F runs and previews through 50 steps': (client, turn) =>
      turn % 2 === 0
        ? client.post(`${made.chained}/backfill`, range)
        : client.get(`${made.chained}/preview`),
    ...(await kindsOfAttack(target, owner)),
    ...(await ownPluginAttacks(target, owner)),
    ...strangerAttacks,
  };
}

function pick<T>(all: readonly T[], turn: number): T {
  // The same attack comes to the same key every few turns: mixed, so that it meets every variant.
  const found = all[(turn * 7 + Math.floor(turn / 31)) % all.length];
  if (found === undefined) throw new Error('nothing to pick');
  return found;
}

async function insertRows({ pool, projectIds }: Target): Promise<void> {
  for (const team of projectIds) {
    await insertEvents(pool, { team, rows: 20_000 });
    await insertEvents(pool, { team, rows: 40, rowBytes: 900_000 });
    await insertEvents(pool, { team, rows: 3, rowBytes: 12_000_000 });
  }
}

interface Made {
  /** Paths of exports. */
  readonly heavy: readonly string[];
  readonly hostile: readonly string[];
  readonly silent: readonly string[];
  readonly noOp: readonly string[];
  readonly chained: string;
}

async function createExports({ projectIds, stores }: Target, owner: ApiClient): Promise<Made> {
  const create = async (team: number, body: object): Promise<string> => {
    const path = `/api/projects/${team}/batch_exports`;
    const answer = await owner.post(path, exportBody({ paused: true, ...body }));
    if (answer.status !== 201) throw new Error(`an export of the attacker: ${answer.text}`);
    return `${path}/${answer.body.id}`;
  };
  const ofAll = async (bodies: readonly object[]): Promise<readonly string[]> => {
    const paths: string[] = [];
    for (const team of projectIds) for (const body of bodies) paths.push(await create(team, body));
    return paths;
  };
  const at = (endpoint: string, format = 'JSONLines') => ({
    destination: s3({ endpoint_url: endpoint, file_format: format, prefix: '{batch_export_id}/' }),
  });
  const noOp = { destination: { type: 'NoOp', config: {} } };
  const grown = 'select uuid, properties::text || properties::text as t from events';
  const [team] = projectIds;
  for (let order = 1; order <= 50; order += 1) {
    const body = { ...labStep(order), order, enabled: true };
    const path = `/api/projects/${team}/pipeline_transformation_configs`;
    const answer = await owner.post(path, body);
    if (answer.status !== 201) throw new Error(`a step of the attacker: ${answer.text}`);
  }
  return {
    heavy: await ofAll([
      { ...noOp, dsl_query: 'select uuid, upper(properties::text) as t from events' },
      noOp,
      { ...noOp, dsl_query: grown },
    ]),
    hostile: await ofAll(stores.flatMap((endpoint) => [at(endpoint), at(endpoint, 'Parquet')])),
    silent: await ofAll([at('http://never.silent.example')]),
    noOp: await ofAll([noOp]),
    chained: await create(team, { ...noOp, transformations: true }),
  };
}

function hostileQueries(): readonly string[] {
  const grow = Array.from({ length: 12 }).reduce<string>(
    (text) => `replace(${text}, 'a', 'aaaaaaaa')`,
    'event',
  );
  const found = [
    `select strpos(array_to_string(string_to_array(event, ''), event), event) as n from events`,
    `select ${grow} as t from events`,
    `select ${'+'.repeat(9_980)}1 as n from events`,
    `select ${Array.from({ length: 2_401 }, (_, n) => `a${n}`).join()} from events`,
    `select event from events where event like '${'%a'.repeat(500)}'`,
    `select lpad(event, 1000000, event) as t, repeat(event, 100000) as u from events`,
    `select properties::text as t from events where properties::text like '%${'x%'.repeat(90)}'`,
  ];
  const random = fc.sample(hostileExpression, { numRuns: 200, seed: 12 });
  return [...found, ...random.map((text) => `select ${text} as x from events`)];
}

function largeBodies(): readonly string[] {
  const filler = (item: string, count: number) => Array.from({ length: count }, () => item).join();
  const config = (names: string) =>
    `{"name":"a","interval":"hour","destination":{"type":"S3","config":{"include_events":[${names}]}}}`;
  return [
    config(filler('0', 500_000)),
    config(filler('"a"', 250_000)),
    `{"name":${'['.repeat(400_000)}${']'.repeat(400_000)}}`,
    `{${Array.from({ length: 60_000 }, (_, n) => `"field${n}":1`).join()}}`,
    'x'.repeat(1_000_000),
  ];
}

/** Alternating, so that each changes what the one before made. */
function labStep(order: number) {
  return order % 2 === 0
    ? { plugin: 17, config: { style: 'camelCase', names: 'properties' } }
    : { plugin: 18, config: { max_length: '1000' } };
}

const labBodies = (() => {
  const configs = Array.from({ length: 50 }, (_, n) => labStep(n));
  const row = (bytes: number) => ({
    event: 'a',
    properties: Object.fromEntries(
      Array.from({ length: bytes / 20 }, (_, n) => [`some_name_${n}`, `value ${n}`]),
    ),
  });
  const list = (count: number, bytes: number) => Array.from({ length: count }, () => row(bytes));
  const body = (rows: object[], steps = configs) => JSON.stringify({ configs: steps, rows });
  return {
    large: [body(list(1, 700_000)), body(list(100, 7_000))],
    allowed: [
      body(list(10, 3_000)),
      body(list(100, 300)),
      body(list(1, 180_000), configs.slice(0, 1)),
    ],
  };
})();
