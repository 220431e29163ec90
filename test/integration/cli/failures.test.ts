import { createServer, type RequestListener } from 'node:http';
import { beforeAll, describe, expect, test } from 'vitest';
import { ensureEventsTable } from '../../../src/rows/sources/index.ts';
import { useApi } from '../../support/api-under-test.ts';
import { allowBriefReceipts } from '../../support/brief-receipts.ts';
import { type CliOptions, cliEnv, runCli } from '../../support/cli.ts';
import { createEmptyDatabase } from '../../support/database.ts';
import { createKey } from '../../support/tenants.ts';
import { inTest, listenInTest } from '../../support/use-stage.ts';

let env: Record<string, string>;

const api = useApi();
beforeAll(async () => {
  await allowBriefReceipts(api.db);
  env = cliEnv(api);
});

const sluice = (args: readonly string[], changes: Partial<CliOptions> = {}) =>
  runCli(args, { env, ...changes });

/** The same with other variables, all others as they are. */
const withEnv = (args: readonly string[], more: Readonly<Record<string, string>>) =>
  sluice(args, { env: { ...env, ...more } });

const create = async (changes = {}) => (await api.create(changes)).id;

/** A server that is not Sluice. @returns its address */
const serve = async (listener: RequestListener) =>
  `http://127.0.0.1:${await listenInTest(createServer(listener))}`;

describe('one line says what is wrong and what to do', () => {
  const list = ['exports', 'list'];

  test('a database that was never migrated', async () => {
    const empty = await inTest(createEmptyDatabase());
    for (const verb of [
      ['keys', 'create', '--operator', '--scopes', '*', '--name', 'x'],
      ['verify'],
      ['eras', 'list'],
    ]) {
      const { code, err } = await sluice(verb, { env: { DATABASE_URL: empty.url } });
      const says = /^DATABASE_URL: relation ".*" does not exist .*; run `sluice migrate`\.$/m;
      expect([code, err], verb.join(' ')).toEqual([1, expect.stringMatching(says)]);
    }
  });

  test('a missing URL or key', async () => {
    expect(await sluice(list, { env: {} })).toMatchObject({
      code: 2,
      err: 'SLUICE_URL is not set. Set it to the address of the API, such as http://127.0.0.1:8000.\n',
    });
    expect(await sluice(list, { env: { SLUICE_URL: api.baseUrl } })).toMatchObject({
      code: 2,
      err: "SLUICE_KEY is not set. Set it to an API key. `sluice keys create --organization <id> --scopes '*' --name <name>` issues one with the key of an operator. The first key of an operator comes from the machine of the service: `sluice keys create --operator --scopes '*' --name operator`.\n",
    });
  });

  test('an address that is none, and one that holds a password', async () => {
    const at = (SLUICE_URL: string) => withEnv(list, { SLUICE_URL });
    expect(await at('localhost:8000')).toMatchObject({ code: 2 });
    const { code, err } = await at('http://admin:hunter2@127.0.0.1:1');
    expect([code, err]).toEqual([
      2,
      'SLUICE_URL: remove the user and password. Put the key into SLUICE_KEY.\n',
    ]);
  });

  test('an address with a path', async () => {
    const at = (path: string) => withEnv(list, { SLUICE_URL: `${api.baseUrl}${path}` });
    expect(await at('/api/')).toMatchObject({
      code: 2,
      err: `SLUICE_URL: remove the path /api/, which the command adds. Set it to ${api.baseUrl}.\n`,
    });
    const { code, err } = await at('/console');
    expect(code).toBe(1);
    expect(err).toContain(`SLUICE_URL has the path /console: set it to ${api.baseUrl}, unless`);
  });

  test('the status of a project without exports', async () => {
    const [, empty] = api.tenant.projectIds;
    const { out } = await sluice(['status', '--project', String(empty)]);
    expect(out).toMatch(/^Exports {3}none$/m);
    expect(out).toMatch(/^Nothing needs attention: no exports yet\.$/m);
  });

  test('a key that is not valid', async () => {
    for (const SLUICE_KEY of ['nonsense', `slc_${'a'.repeat(40)}`]) {
      expect(await withEnv(list, { SLUICE_KEY })).toMatchObject({
        code: 4,
        err: `SLUICE_KEY: The API key is not valid. Set SLUICE_KEY to a key of ${api.baseUrl}. \`sluice keys create --organization <id> --scopes '*' --name <name>\` issues one.\n`,
      });
    }
    expect(await withEnv(list, { SLUICE_KEY: 'ключ' })).toMatchObject({ code: 4 });
  });

  test('a key without the scope', async () => {
    const { organizationId } = api.tenant;
    const { key } = await createKey(api.db, { organizationId, scopes: ['batch_export:read'] });
    const id = await create({ name: 'Read only' });
    const says = /^SLUICE_KEY: The API key lacks the scope batch_export:write\. .*\n$/;
    expect(await withEnv(['exports', 'pause', id], { SLUICE_KEY: key })).toMatchObject({
      ...{ code: 4, err: expect.stringMatching(says) },
    });
  });

  test('a key of the wrong kind gets a remedy that fits it', async () => {
    const { key: operator } = await createKey(api.db, { organizationId: null, scopes: ['*'] });
    const asOperator = await withEnv(list, { SLUICE_KEY: operator });
    expect(asOperator.code).toBe(4);
    expect(asOperator.err).toMatch(
      /^SLUICE_KEY: This is the key of an operator.* take the key of an operator\.\n$/,
    );
    const asCustomer = await sluice(['organizations', 'list']);
    expect(asCustomer.code).toBe(4);
    expect(asCustomer.err).toMatch(
      /^SLUICE_KEY: This is not an operator's key\. .* on the machine of the service\.\n$/,
    );
  });

  test('a wrong project, and @current if there are several', async () => {
    const wrong = await sluice([...list, '--project', '999999']);
    expect(wrong.code).toBe(4);
    expect(wrong.err).toMatch(
      /^--project 999999: This API key has no access to the project\. Use .*\n$/,
    );
    const { SLUICE_PROJECT: _, ...noProject } = env;
    const [first, second] = api.tenant.projectIds;
    const ambiguous = await sluice(list, { env: noProject });
    expect(ambiguous).toMatchObject({ code: 4, out: '' });
    expect(ambiguous.err).toContain(
      `Name one with --project: ${first} (Website), ${second} (App).`,
    );
  });

  test('a server that is not Sluice, and one that redirects: the key is not sent on', async () => {
    const page = await serve((_, response) => response.end('<html>'));
    expect(await withEnv(list, { SLUICE_URL: page })).toMatchObject({
      code: 3,
      err: expect.stringContaining('does not answer as Sluice does (status 200)'),
    });
    const keys: unknown[] = [];
    const other = await serve((request, response) => {
      keys.push(request.headers.authorization);
      response.end('{}');
    });
    const redirect = await serve((_, response) => {
      response.writeHead(302, { location: other }).end();
    });
    expect(await withEnv(list, { SLUICE_URL: redirect })).toMatchObject({
      code: 3,
      err: expect.stringContaining(`a redirect to ${other}`),
    });
    expect(keys).toEqual([]);
  });
});

test('a service that asks to wait is asked again, and a POST keeps its Idempotency-Key', async () => {
  const keys: unknown[] = [];
  const id = '00000000-0000-4000-8000-000000000000';
  const url = await serve((request, response) => {
    if (request.method === 'POST') keys.push(request.headers['idempotency-key']);
    const isBusy = request.method === 'POST' && keys.length === 1;
    const headers = { 'content-type': 'application/json', 'retry-after': '0' };
    const busy = { code: 'throttled', detail: 'Too many requests.' };
    response.writeHead(isBusy ? 429 : 200, headers);
    response.end(JSON.stringify(isBusy ? busy : { id, name: 'x' }));
  });
  const { code, err } = await withEnv(['exports', 'pause', id], { SLUICE_URL: url });
  expect([code, err]).toEqual([0, 'The service asks to wait 0 s …\n']);
  expect(keys).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), keys[0]]);
});

test('a service that restarts does not end a command that waits', async () => {
  const id = '00000000-0000-4000-8000-000000000000';
  const begun = { backfill_id: id, backfill_total_runs: 1 };
  const backfill = { id, total_runs: 1, failed_runs: 0, records_completed: 1, bytes_exported: 9 };
  let polls = 0;
  const url = await serve((request, response) => {
    const isPoll = request.url?.includes('/backfills/') ?? false;
    if (isPoll) polls += 1;
    if (polls === 2) return void request.socket.destroy();
    const done = { finished_runs: polls > 2 ? 1 : 0, progress: polls > 2 ? 1 : 0, eta: null };
    const status = polls > 2 ? 'Completed' : 'Running';
    const made = request.method === 'POST' ? begun : { id, name: 'x' };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(isPoll ? { ...backfill, ...done, status } : made));
  });
  const range = ['--from', '2024-03-01', '--to', '2024-03-02'];
  const { code, out, err } = await withEnv(['backfill', id, ...range], { SLUICE_URL: url });
  expect([code, out]).toEqual([0, expect.stringContaining('Completed, 1 of 1 run done, 1 row, ')]);
  expect(err).toMatch(/SLUICE_URL: .* is unreachable .* Asking again for a minute …\n/);
});

describe('an export is named', () => {
  test('by name or id; several with one name list their ids', async () => {
    const first = await create({ name: 'Twice' });
    const second = await create({ name: 'Twice' });
    const { code, err } = await sluice(['exports', 'get', 'Twice']);
    const says = `2 exports are named "Twice". Use an id: ${second}, ${first}.\n`;
    expect([code, err]).toEqual([1, says]);
    const { out } = await sluice(['exports', 'get', first, '--json']);
    expect(JSON.parse(out)).toMatchObject({ id: first, name: 'Twice' });
  });

  test('that does not exist', async () => {
    await create({ name: 'Known' });
    const { code, err } = await sluice(['exports', 'get', 'Unknown']);
    expect(code).toBe(1);
    expect(err).toMatch(/^There is no export "Unknown" in this project\. It has .*"Known".*\n$/);
    const none = '00000000-0000-4000-8000-000000000000';
    expect(await sluice(['exports', 'get', none])).toMatchObject({
      code: 1,
      err: `There is no export ${none} in this project. \`sluice exports list\` shows them.\n`,
    });
    const id = await create({ name: 'No runs' });
    expect(await sluice(['runs', 'files', id, none])).toMatchObject({
      code: 1,
      err: `There is no run ${none} of this export. \`sluice runs list ${id}\` shows its runs.\n`,
    });
  });
});

test('a long name is cut in a table, so that its columns stay in sight', async () => {
  await create({ name: 'N'.repeat(300) });
  const { out } = await sluice(['exports', 'list']);
  expect(out).toContain(`${'N'.repeat(47)}…  fine`);
  expect((await sluice(['exports', 'list', '--json'])).out).toContain('N'.repeat(300));
});

test('only a terminal gets colours, and none gets control characters of others', async () => {
  await create({ name: 'Evil \u001b]0;pwned\u0007\u202e name' });
  const start = '\u001b[';
  const onTerminal = await sluice(['exports', 'list'], { isTerminal: true });
  expect(onTerminal.out).toContain(`${start}32mfine${start}0m`);
  for (const shown of [
    await sluice(['exports', 'list']),
    await sluice(['exports', 'list'], { isTerminal: true, env: { ...env, NO_COLOR: '1' } }),
  ]) {
    expect(shown.out).toContain('Evil \ufffd]0;pwned\ufffd\ufffd name');
    expect(shown.out).not.toContain('\u001b');
  }
});

test('removing delivered rows asks a person with their number, and does nothing without a yes', async () => {
  await ensureEventsTable(api.databaseUrl);
  const body = await api.create();
  const [ended] = await api.sql<{ id: string }>`with run as (
       insert into runs (export_id, team_id, data_interval_start, data_interval_end, status, finished_at)
       values (${body.id}, ${api.teamId}, '2024-03-01T00:00Z', '2024-03-01T01:00Z', 'Completed', now()) returning *
     ), received as (
       insert into receipts (export_id, data_interval_start, data_interval_end, run_id, files, rows, bytes, settled)
       select export_id, data_interval_start, data_interval_end, id, '[{"key": "a", "rows": 5}]', 5, 1, true from run
     ) select id from run`;
  const range = ['--from', '2024-03-01T00:00:00Z', '--to', '2024-03-01T01:00:00Z'];
  const backfill = ['backfill', String(body.id), ...range, '--no-wait'];
  const retry = ['runs', 'retry', String(body.id), String(ended?.id)];
  const question =
    'Remove 5 delivered rows from the files of 1 interval from 2024-03-01T00:00:00Z to 2024-03-01T01:00:00Z?';
  const dry = await runCli([...backfill, '--dry-run'], { env });
  expect(dry.out).toContain('In all: 5 rows delivered, 5 would go.');
  for (const command of [backfill, retry]) {
    const drop = [...command, '--missing-rows', 'drop'];
    const alone = await runCli(drop, { env });
    const says = `${question} Pass --yes: there is no terminal to ask.\n`;
    expect([alone.code, alone.err]).toEqual([2, says]);
    expect((await runCli(drop, { env, answer: 'n' })).code).toBe(1);
  }
  const dropping =
    await api.sql`select id from backfills where export_id = ${body.id} and drops_missing
    union all select id from runs where export_id = ${body.id} and drops_missing`;
  expect(dropping).toEqual([]);
  expect((await runCli([...retry, '--missing-rows', 'drop', '--yes'], { env })).code).toBe(0);
  expect((await runCli([...backfill, '--missing-rows', 'drop'], { env, answer: 'y' })).code).toBe(
    0,
  );
});

test('deleting asks a person, and does nothing without a yes', async () => {
  const id = await create({ name: 'Precious' });
  const unchanged = { code: 1, err: 'Nothing was changed.\n' };
  expect(await sluice(['exports', 'delete', id], { answer: 'no' })).toMatchObject(unchanged);
  expect(await sluice(['exports', 'delete', id])).toMatchObject({ code: 2 });
  expect((await api.get(`${api.exports}/${id}`)).status).toBe(200);
  expect(await sluice(['exports', 'delete', id], { answer: 'y' })).toMatchObject({ code: 0 });
  expect((await api.get(`${api.exports}/${id}`)).status).toBe(404);
});
