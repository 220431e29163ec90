import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import type { Pool } from 'pg';
import { mintApiKey } from '../../src/foundation/security/api-keys.ts';
import { hostileExpression } from '../security/hostile-queries.ts';
import type { ApiAnswer, ApiClient } from '../support/api-client.ts';
import { exportBody, s3 } from '../support/batch-export-bodies.ts';
import { insertEvents } from '../support/exported-events.ts';
import { fillPath, type Operation, readDocument } from '../support/openapi.ts';
import { ownPluginAttacks } from './own-plugins.ts';

/** Time for which a connection stays open without being read. */
const openMs = 500;

/** Opens connections, sends a text on each, reads nothing, and asks for readiness meanwhile. */
async function hold(client: ApiClient, connections: number, text: string) {
  const { hostname, port } = new URL(client.baseUrl);
  const sockets = Array.from({ length: connections }, () => {
    const socket = connect(Number(port), hostname, () => socket.pause().write(text));
    return socket.on('error', () => {});
  });
  await delay(openMs);
  try {
    return await client.withKey(null).get('/readyz');
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

const paths = [
  '/api/openapi.json',
  '/api/docs/static/swagger-ui-bundle.js',
  '/console/',
  '/nowhere',
];

const request = (method: string, path: string, head = '') =>
  `${method} ${path} HTTP/1.1\r\nhost: x\r\n${head}\r\n`;

/** What a stranger without a key may send: requests whose answers are not read, and ones that do not end. */
const strangerAttacks: Attacks = {
  'G pipelined requests without a key, unread': (client, turn) =>
    hold(client, 10, request('GET', paths[turn % paths.length] ?? '/').repeat(1_000)),
  'G headers that do not end': (client) => hold(client, 50, 'GET / HTTP/1.1\r\nx: '),
  'G bodies that do not end, without a key': (client) =>
    hold(client, 50, request('POST', '/nowhere', 'content-length: 1000000\r\n')),
  'G idle connections': (client) => hold(client, 300, ''),
};

/** Of at most 1 MiB: names that do not exist, a long one, and elements of the wrong type at every level. */
const faulty: readonly string[] = [
  `{${Array.from({ length: 50_000 }, (_, n) => `"f${n}":1`).join()}}`,
  `{"${'x'.repeat(900_000)}":1}`,
  `{"destination":{"type":"S3","config":{"include_events":[${'{"a":1},'.repeat(100_000)}1]}},"filters":[${'{"y":1},'.repeat(100)}1]}`,
];

/** Every operation of the OpenAPI document, so a new route is attacked at once: its largest page, and bodies of faults. */
async function everyOperation(target: Target, owner: ApiClient): Promise<Attacks> {
  const { operations } = await readDocument(owner);
  // What deletes would end the other attacks.
  const attacked = operations.filter(({ method, scope }) => scope !== null && method !== 'DELETE');
  const list = `/api/projects/${target.projectIds[0]}/batch_exports`;
  const { body } = await owner.get(list);
  const id = body.results[0]?.id ?? '';
  const ids = {
    project_id: target.projectIds[0],
    organization_id: target.organizationId,
    ...{ id, batch_export_id: id },
  };
  const act = (client: ApiClient, { path, method }: Operation, turn: number) => {
    const filled = fillPath(path, ids);
    const raw = faulty[turn % faulty.length] ?? '{}';
    return method === 'GET'
      ? client.get(`${filled}?limit=1000&${'x'.repeat(1_000)}=1`)
      : client.send(method, filled, { raw });
  };
  return {
    'H every operation, with its largest page or a body of faults': (client, turn) => {
      const operation = attacked[turn % attacked.length];
      if (!operation) throw new Error('no operations');
      return act(client, operation, turn);
    },
  };
}

/** One for each kind of thing that a tenant stores, shows or asks for. */
async function kindsOfAttack(target: Target, owner: ApiClient): Promise<Attacks> {
  const project = (turn: number) => `/api/projects/${target.projectIds[turn % 2]}`;
  const create = async (client: ApiClient, turn: number, body: object): Promise<ApiAnswer> => {
    const path = `${project(turn)}/batch_exports`;
    const answer = await client.post(path, exportBody({ paused: true, ...body }));
    if (answer.status !== 201) return answer;
    const preview = await client.get(`${path}/${answer.body.id}/preview`);
    await client.delete(`${path}/${answer.body.id}`);
    return preview;
  };
  return {
    ...(await everyOperation(target, owner)),
    'A as many filters as are allowed, previewed': (client, turn) =>
      create(client, turn, {
        filters: Array.from({ length: 20 }, (_, n) => ({
          ...{ key: `k${n}`, operator: 'not_icontains' },
          value: Array.from({ length: 4 }, (_, v) => `${v}${'%'.repeat(40)}`),
        })),
      }),
    'A time zones of every spelling': (client, turn) => {
      const name = [...'America/Argentina/Buenos_Aires'];
      const timezone = name
        .map((c, at) => ((turn >> (at % 16)) & 1 ? c.toUpperCase() : c))
        .join('');
      const dsl_query = `select inserted_at at time zone '${timezone}' as t from events`;
      return create(client, turn, { timezone, dsl_query });
    },
    'D disabled steps of 60 KiB, listed and moved': async (client, turn) => {
      const steps = `${project(turn)}/pipeline_transformation_configs`;
      const config = { properties: 'p'.repeat(60_000) };
      const made = await client.post(steps, { plugin: 5, order: turn, config });
      if (made.status !== 201) return client.get(`${steps}?limit=1000`);
      return client.patch(`${steps}/rearrange`, { orders: { [made.body.id]: turn + 1 } });
    },
    'D answers that an Idempotency-Key keeps': (client, turn) =>
      client.post(`${project(turn)}/batch_exports`, exportBody({ paused: true, interval: 'no' }), {
        headers: { 'idempotency-key': `${turn}-${Math.random()}` },
      }),
    'I mail to strangers': (client, turn) =>
      client.post(`/api/organizations/${target.organizationId}/notification_targets`, {
        ...{ kind: 'email', events: ['run.failed'] },
        recipients: Array.from({ length: 20 }, (_, n) => `stranger${turn}-${n}@example.com`),
      }),
  };
}

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
