import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { buildApi } from '../../src/service/api/build-api.ts';
import { isWellFormedApiKey } from '../../src/foundation/security/api-keys.ts';
import { type Database, openDatabase } from '../../src/state/store/database/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { projectRoot, startBundled } from '../support/processes.ts';
import { testApiOptions } from '../support/test-api-options.ts';

let database: TestDatabase;
let db: Database;
let api: Awaited<ReturnType<typeof buildApi>>;
let env: Record<string, string>;

beforeAll(async () => {
  database = await createTestDatabase();
  db = openDatabase({
    connectionString: database.url,
    applicationName: 'cli-test',
    maxConnections: 3,
    onError: () => {},
  });
  api = await buildApi(testApiOptions(db, database.url));
  env = {
    DATABASE_URL: database.url,
    SLUICE_URL: await api.listen({ port: 0, host: '127.0.0.1' }),
  };
  // No key could ask the API for it.
  const first = ['keys', 'create', '--operator', '--scopes', '*', '--name', 'first'];
  env = { ...env, SLUICE_KEY: String((await json(...first)).key) };
});
afterAll(async () => {
  await api?.close();
  await db?.close();
  await database.drop();
});

async function sluice(...args: string[]): Promise<{ code: number | null; output: string }> {
  const child = startBundled('clients/cli/sluice.js', args, { env });
  const { code } = await child.waitForExit();
  return { code, output: child.output() };
}

async function json<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const { code, output } = await sluice(...args, '--json');
  expect(code, output).toBe(0);
  const lines = output
    .trim()
    .split('\n')
    .filter((line) => /^[[{]/.test(line));
  return JSON.parse(lines.at(-1) ?? 'null') as T;
}

test('models check speaks of the missing table of the built-in model only if an export uses it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-models-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, 'models.yaml');
  const model = {
    ...{ name: 'things', relation: 'public.things', tenant_column: 'team', interval_column: 'at' },
    ...{ key_columns: ['id'], columns: [{ name: 'id', type: 'bigint' }] },
  };
  await writeFile(path, JSON.stringify({ models: [model] }));
  await database.pool.query(
    'create table things (id bigint primary key, team int not null, at timestamptz not null)',
  );
  const check = async () => {
    const child = startBundled('clients/cli/sluice.js', ['models', 'check'], {
      env: { DATABASE_URL: database.url, MODELS_FILE: path },
    });
    const { code } = await child.waitForExit();
    return { code, output: child.output() };
  };
  const unused = await check();
  expect(unused.code, unused.output).toBe(0);
  expect(unused.output).not.toContain('events');

  const organization = await json('organizations', 'create', '--name', 'Models');
  const id = String(organization.id);
  const project = await json('projects', 'create', '--organization', id, '--name', 'Models');
  await database.pool.query(
    `insert into batch_exports (team_id, name, destination_type, destination_config, "interval", schedule, next_tick_at)
     values ($1, 'Events', 'NoOp', '{}', 'hour', '{}', now())`,
    [project.id],
  );
  const used = await check();
  expect(used.code, used.output).toBe(1);
  expect(used.output).toContain('error: The relation public.events does not exist.');
  await database.pool.query('delete from batch_exports');
});

test('prints its version', async () => {
  const { version } = JSON.parse(readFileSync(`${projectRoot}/package.json`, 'utf8'));
  expect(await sluice('--version')).toEqual({ code: 0, output: `${version}\n` });
});

describe('organizations, projects and keys', () => {
  test('are created, and a key that would have ended is not', async () => {
    const organization = await json('organizations', 'create', '--name', 'Acme');
    expect(organization).toMatchObject({
      name: 'Acme',
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    const id = String(organization.id);
    const project = await json('projects', 'create', '--organization', id, '--name', 'Web');
    expect(Number.isInteger(project.id)).toBe(true);
    const issued = await json(
      ...['keys', 'create', '--organization', id, '--project', String(project.id)],
      ...[
        '--scopes',
        'batch_export:read,plugin:write',
        '--name',
        'ci',
        '--expires-at',
        '2124-01-01',
      ],
    );
    expect(isWellFormedApiKey(String(issued.key))).toBe(true);
    expect(issued).toMatchObject({
      name: 'ci',
      project_ids: [project.id],
      scopes: ['batch_export:read', 'plugin:write'],
      expires_at: '2124-01-01T00:00:00.000000Z',
    });

    const late = await sluice(
      ...['keys', 'create', '--organization', id, '--scopes', '*', '--name', 'late'],
      ...['--expires-at', '2024-01-01'],
    );
    expect([late.code, late.output]).toEqual([1, expect.stringContaining('is in the past')]);
  });
});

const organizationOfNone = '00000000-0000-4000-8000-000000000000';

describe('what goes wrong', () => {
  test.each([
    ['a missing option', ['organizations', 'create'], 2, '--name'],
    ['an unknown verb', ['organizations', 'explode'], 2, 'explode'],
    [
      'an id that is no UUID',
      ['projects', 'create', '--organization', 'x', '--name', 'y'],
      2,
      'UUID',
    ],
    ['a blank name', ['organizations', 'create', '--name', ' '], 2, '--name is empty'],
    [
      'an organization that is not there',
      ['projects', 'create', '--organization', organizationOfNone, '--name', 'y'],
      1,
      'no organization',
    ],
  ])('%s', async (_what, args, code, says) => {
    const answer = await sluice(...args);
    expect(answer.output).toContain(says);
    expect(answer.code).toBe(code);
  });

  test('an unknown scope is named', async () => {
    const { id } = await json('organizations', 'create', '--name', 'Scopes');
    const answer = await sluice(
      ...['keys', 'create', '--organization', String(id), '--scopes', 'all', '--name', 'x'],
    );
    expect([answer.code, answer.output]).toEqual([2, expect.stringContaining('--scopes: ')]);
  });

  test('the first key needs no other, and the family that is gone names the one that stays', async () => {
    const both = await sluice('keys', 'list', '--operator', '--organization', organizationOfNone);
    expect([both.code, both.output]).toEqual([2, expect.stringContaining('either --organization')]);
    const gone = await sluice('admin', 'organizations', 'create', '--name', 'Acme');
    expect([gone.code, gone.output]).toEqual([2, expect.stringContaining('Leave out "admin"')]);
    const listed = await json<{ name: string }[]>('keys', 'list', '--operator');
    expect(listed.map(({ name }) => name)).toEqual(['first']);
  });

  test('an unreachable database is reported as unreachable', async () => {
    const child = startBundled('clients/cli/sluice.js', ['eras', 'list'], {
      env: { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' },
    });
    expect((await child.waitForExit()).code).toBe(3);
    expect(child.output()).toContain('DATABASE_URL: the database is unreachable');
  });
});
