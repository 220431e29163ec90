import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { anyModels, anyTableRows, createAnyTables, writeAnyModels } from '../support/any-tables.ts';
import { createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import {
  backfill,
  createS3Export,
  hour,
  projectPath,
  untilEnded,
} from '../support/exported-events.ts';
import { findFreePort } from '../support/free-port.ts';
import { bucket, type Installation, startInstallation } from '../support/installation.ts';
import { isNightly } from '../support/nightly.ts';
import { openDuckDb } from '../support/parquet-readers.ts';
import { startSluice } from '../support/processes.ts';

const formats = {
  JSONLines: { file_format: 'JSONLines', compression: 'gzip' },
  CSV: { file_format: 'CSV', compression: null },
  Parquet: { file_format: 'Parquet', compression: 'zstd' },
};

let folder: string;
let second: TestDatabase;
let installation: Installation;
let workerPort: number;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-models-'));
  second = await createEmptyDatabase();
  workerPort = await findFreePort();
  installation = await startInstallation({
    workers: 1,
    env: {
      MODELS_FILE: await writeAnyModels(folder),
      SECOND_DATABASE_URL: second.url,
      WORKER_PORT: String(workerPort),
    },
  });
  await createAnyTables(installation.pool, second.pool, installation.tenant.projectIds[0]);
}, 120_000);

afterAll(async () => {
  await installation?.close();
  await second?.drop();
  if (folder) await rm(folder, { recursive: true });
});

async function sluice(...args: string[]) {
  const command = startSluice('clients/cli/sluice.js', args, { env: installation.env });
  const exit = await command.waitForExit();
  return { code: exit.code, output: command.output() };
}

it('exports a partitioned table, a view, odd types and another database, in each format, and verify proves it', async () => {
  const wanted = anyModels.flatMap(({ name: model }) =>
    Object.entries(formats).map(([format, config]) => ({ model, format, config })),
  );
  const exported = await Promise.all(
    wanted.map(async ({ model, config }) => {
      const id = await createS3Export(installation, { model, config });
      await backfill(installation, id, hour);
      return id;
    }),
  );
  for (const [index, id] of exported.entries()) {
    const [run, ...others] = await untilEnded(installation, id);
    const { model, format } = wanted[index] ?? {};
    expect({ ...run, model, format }).toMatchObject({ status: 'Completed', rows: anyTableRows });
    expect(others).toEqual([]);
  }
  const { code, output } = await sluice('verify', '--json');
  expect(code, output).toBe(0);
  expect(JSON.parse(output)).toMatchObject({
    exports: wanted.length,
    rows: wanted.length * anyTableRows,
    findings: [],
  });
}, 120_000);

it('gives each value as PostgreSQL prints it', async () => {
  const { pool, s3, tenant } = installation;
  const id = await createS3Export(installation, { model: 'odd', config: formats.JSONLines });
  await backfill(installation, id, hour);
  await untilEnded(installation, id);
  const keys = (await s3.objects(bucket)).map(({ key }) => key);
  const key = keys.find((found) => found.startsWith(id) && found.endsWith('.jsonl.gz')) ?? '';
  const lines = gunzipSync(await s3.body(bucket, key))
    .toString()
    .trimEnd()
    .split('\n');
  // The times are spelled in another way; their exactness is shown by verify.
  const { rows } = await pool
    .query<{ line: string }>(
      `set intervalstyle = iso_8601; select json_build_object(
        'order', "order", 'mood', mood, 'Blob', "Blob", 'exact', exact, 'tags', tags, 'range', range,
        'took', took, 'group', "group", 'data', data, 'day', day, 'ratio', ratio, 'price', price,
        'clock', clock)::text as line
       from "My.Schema"."select" where "user" = '${tenant.projectIds[0]}' order by "from"`,
    )
    .then((results) => [results].flat().at(-1) ?? { rows: [] });
  const parsed = lines.map((line) => {
    const { from, ...row } = JSON.parse(line);
    expect(from).toMatch(/^2024-03-01T00:\d\d:\d\d\.\d{6}Z$/);
    return row;
  });
  expect(parsed).toEqual(rows.map(({ line }) => JSON.parse(line)));
  // Past 2^53, and with its zero, where JSON.parse would hide the difference.
  expect(lines[11]).toContain('"exact":11.10,');
  expect(lines[11]).toContain('"big": 9007199254740993');
});

it.runIf(isNightly)(
  'a numeric without limits is DECIMAL once the export asks for it, and not before',
  async () => {
    const duckDb = await openDuckDb();
    onTestFinished(() => duckDb.close());
    const config = formats.Parquet;
    const id = await createS3Export(installation, { model: 'odd', config });
    const exportAgain = async (count: number) => {
      await backfill(installation, id, hour);
      const runs = await untilEnded(installation, id, { count });
      expect(runs.at(-1)).toMatchObject({ status: 'Completed', rows: anyTableRows });
      const keys = (await installation.s3.objects(bucket)).map(({ key }) => key);
      const manifestKey = keys.find((key) => key.startsWith(id) && key.endsWith('_manifest.json'));
      const manifest = JSON.parse(String(await installation.s3.body(bucket, manifestKey ?? '')));
      expect(manifest.run_id).toBe(runs.at(-1)?.id);
      const file = await installation.s3.body(bucket, manifest.files[0].key);
      const wanted = new Set(['mood', 'exact', 'tags', 'range', 'price', 'clock']);
      const types = (await duckDb.types(file)).filter((type) =>
        wanted.has(type.split(' ')[0] ?? ''),
      );
      const what = 'mood, exact, tags, "range", price, clock';
      const [row] = await duckDb.query(file, what, "where exact::varchar like '1.10%'");
      return { types, row };
    };
    expect(await exportAgain(1)).toEqual({
      types: [
        'mood VARCHAR',
        'exact VARCHAR',
        'tags VARCHAR[]',
        'range VARCHAR',
        'price DECIMAL(20,3)',
        'clock TIME',
      ],
      row: ['so "so"', '1.10', ['x', null, '1'], '[1,6)', '-1.250', 1_500_001n],
    });
    const path = `${projectPath(installation)}/batch_exports/${id}/`;
    const decimals = { decimal_columns: ['exact decimal(20,4)'] };
    const raised = { destination: { config: decimals } };
    expect((await installation.client.patch(path, raised)).status).toBe(200);
    expect(await exportAgain(2)).toEqual({
      types: [
        'mood VARCHAR',
        'exact DECIMAL(20,4)',
        'tags VARCHAR[]',
        'range VARCHAR',
        'price DECIMAL(20,3)',
        'clock TIME',
      ],
      row: ['so "so"', '1.1000', ['x', null, '1'], '[1,6)', '-1.250', 1_500_001n],
    });
    const { rows } = await installation.pool.query(
      `select recipe -> 'decimalColumns' as decimals from receipts where export_id = $1`,
      [id],
    );
    expect(rows).toEqual([{ decimals: [{ name: 'exact', precision: 20, scale: 4 }] }]);
    // `exact` is a key: in the files it has more zeros than in the source.
    const { code, output } = await sluice('verify', '--export', id, '--json');
    expect(code, output).toBe(0);
    expect(JSON.parse(output)).toMatchObject({ exports: 1, rows: anyTableRows, findings: [] });
  },
);

it('rows that the chosen DECIMAL cannot hold are in the log, the metric and a file of their own, or fail the run', async () => {
  const readCounter = async () => {
    const answer = await fetch(`http://127.0.0.1:${workerPort}/metrics`);
    return Number(/^sluice_rows_rejected_total (\d+)$/m.exec(await answer.text())?.[1] ?? 0);
  };
  const before = await readCounter();
  // `exact` is from 0.10 to 299.10.
  const [fitting, rejected] = [100, anyTableRows - 100];
  const config = { file_format: 'Parquet', decimal_columns: ['exact decimal(4,2)'] };
  const id = await createS3Export(installation, { model: 'odd', config });
  await backfill(installation, id, hour);
  const [run] = await untilEnded(installation, id);
  expect(run).toMatchObject({ status: 'Completed', rows: fitting });
  const path = `${projectPath(installation)}/batch_exports/${id}`;
  const { body } = await installation.client.get(`${path}/logs?level=WARNING`);
  expect(body.results.map(({ message }) => message)).toEqual([
    expect.stringMatching(
      /^200 rows were rejected\. Column exact: too large for DECIMAL\(4,2\)\. The first: \{.*"exact":"?100\.10/,
    ),
    expect.stringContaining('Set time_as to text if Spark reads the files.'),
  ]);
  expect(await readCounter()).toBe(before + rejected);
  const verified = await sluice('verify', '--export', id, '--json');
  expect(verified.code, verified.output).toBe(0);
  expect(JSON.parse(verified.output)).toMatchObject({ exports: 1, findings: [] });

  const fails = { destination: { config: { on_rejected: 'fail' } } };
  expect((await installation.client.patch(path, fails)).status).toBe(200);
  await backfill(installation, id, hour);
  const runs = await untilEnded(installation, id, { count: 2 });
  expect(runs.at(-1)).toMatchObject({ status: 'Failed' });
  expect(await readCounter()).toBe(before + rejected);
});

it('verify sees one row lost, one changed and one added among big keys and their neighbours', async () => {
  const { pool } = installation;
  const first = '9007199254740992';
  await pool.query(`update shop.orders set id = id - 1 where id = ${first}`);
  const { code, output } = await sluice('verify');
  await pool.query(`update shop.orders set id = id + 1 where id = ${first}::bigint - 1`);
  expect(code).toBe(1);
  expect(output).toMatch(/1 row missing from the files.*: 9007199254740991\//);
  expect(output).toMatch(/\d+ rows gone from the source/);
});

it('refuses an unknown model, a change of model, and event filters on a model without events', async () => {
  const { client } = installation;
  const path = `${projectPath(installation)}/batch_exports/`;
  const body = (changes: object, config: object = {}) => ({
    name: 'Any',
    interval: 'hour',
    destination: { type: 'NoOp', config },
    ...changes,
  });
  const unknown = await client.post(path, body({ model: 'users' }));
  expect(unknown).toMatchObject({ status: 400, body: { code: 'invalid_choice', attr: 'model' } });
  for (const name of ['events', ...anyModels.map((model) => model.name)]) {
    expect(unknown.body.detail).toContain(name);
  }
  const filters = { include_events: ['a'], exclude_events: ['b'] };
  const refused = await client.post(path, body({ model: 'things' }, filters));
  expect(refused.status).toBe(400);
  expect(refused.body.errors.map(({ attr }) => attr)).toEqual([
    'destination__config__include_events',
    'destination__config__exclude_events',
  ]);
  const made = await client.post(path, body({ model: 'things' }, { include_events: [] }));
  expect(made).toMatchObject({ status: 201, body: { model: 'things' } });
  const change = (changes: object) => client.patch(`${path}${made.body.id}/`, changes);
  expect(await change({ model: 'orders' })).toMatchObject({ status: 400, body: { attr: 'model' } });
  expect(await change({ destination: { config: { include_events: ['a'] } } })).toMatchObject({
    status: 400,
    body: { attr: 'destination__config__include_events' },
  });
  const query = 'SELECT id, body FROM things WHERE length(body) > 3';
  expect((await change({ dsl_query: query })).status).toBe(200);
});

it('previews the rows of a model as they would be exported', async () => {
  const id = await createS3Export(installation, { model: 'odd' });
  const path = `${projectPath(installation)}/batch_exports/${id}/preview/`;
  const { status, body } = await installation.client.get(path);
  expect(status).toBe(200);
  const { columns, rows } = body as unknown as {
    columns: { name: string; type: string }[];
    rows: unknown[][];
  };
  const { columns: modelled = [] } = anyModels.find(({ name }) => name === 'odd') ?? {};
  expect(columns.map(({ name }) => name)).toEqual(modelled.map(({ name }) => name));
  expect(rows).toHaveLength(100);
});

it('does not start with a models file that is wrong, and says where', async () => {
  const path = join(folder, 'wrong.yaml');
  await writeFile(path, 'models:\n  - name: orders\n    relation: orders\n');
  const worker = startSluice('main/worker.js', [], {
    env: { ...installation.env, MODELS_FILE: path },
  });
  expect((await worker.waitForExit()).code).toBe(1);
  const faults = worker.output().split('\n');
  expect(faults[0]).toBe('sluice worker: The configuration is not valid:');
  expect(faults[1]).toContain(`${path}:2 models[0].tenant_column is missing.`);
  expect(worker.output()).toContain(`${path}:3 models[0].relation "orders" is not valid.`);
});

it('the command line lists and checks the models', async () => {
  const listed = await sluice('models', 'list', '--json');
  expect(JSON.parse(listed.output).map(({ name }: { name: string }) => name)).toEqual([
    'events',
    'orders',
    'totals',
    'odd',
    'things',
  ]);
  const { code, output } = await sluice('models', 'check', '--json');
  const found = JSON.parse(output) as { model: string; findings: { detail: string }[] }[];
  expect({ code, found }).toMatchObject({ code: 0 });
  const warnings = Object.fromEntries(
    found.map(({ model, findings }) => [model, findings.map(({ detail }) => detail.slice(0, 26))]),
  );
  expect(warnings).toEqual({
    events: [],
    orders: [],
    totals: ['No unique index covers pai', 'Every run reads the rows o'],
    odd: [],
    things: ['at is timestamp without ti'],
  });
});
