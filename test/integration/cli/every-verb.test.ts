/**
 * What holds for every verb of the command line: `--json` prints one document, wrong values end with 2, an unreachable service
 * with 3. A new verb fails until it has a row here.
 */

import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Command, Option } from 'commander';
import { beforeAll, describe, expect, test } from 'vitest';
import type { CliDeps } from '../../../src/clients/cli/deps.ts';
import { createProgram } from '../../../src/clients/cli/program.ts';
import { type CliResult, runCli } from '../../support/cli.ts';
import { bucket, region, startInstallation } from '../../support/installation.ts';
import { firstByDay, isNightly } from '../../support/nightly.ts';
import { exportOfThePast } from '../../support/run-side.ts';
import { storeExport } from '../../support/store-export.ts';
import { createKey } from '../../support/tenants.ts';
import { useStage } from '../../support/use-stage.ts';
import { folderOfTests } from '../../support/own-folder.ts';

const folder = folderOfTests();
/** Of the project's owner, of an operator, and of the machine of the service. */
let env: Record<'owner' | 'operator' | 'here', Record<string, string>>;
/** What a row has left for the rows below it, by name. */
const made = new Map<string, string>();

const installation = useStage(() => startInstallation({ workers: 0 }));
beforeAll(async () => {
  const { db, client, tenant, s3, secrets } = installation;
  const operator = await createKey(db, { organizationId: null });
  const service = { SLUICE_URL: client.baseUrl, SLUICE_PROJECT: String(tenant.projectIds[0]) };
  env = {
    owner: { ...service, SLUICE_KEY: tenant.key },
    operator: { ...service, SLUICE_KEY: operator.key },
    here: { ...installation.env },
  };
  const keys = {
    aws_access_key_id: secrets.get('the access key id'),
    aws_secret_access_key: secrets.get('the secret access key'),
  };
  const place = { bucket_name: bucket, region, endpoint_url: s3.endpoint };
  const destination = { type: 'S3', config: { ...place, ...keys } };
  const project = `/api/projects/${tenant.projectIds[0]}`;
  for (const name of ['Kept', 'Deleted']) {
    const body = { name, model: 'orders', interval: 'hour', destination, deadline_minutes: 30 };
    const answer = await client.post(`${project}/batch_exports`, body);
    expect(answer.status, answer.text).toBe(201);
    made.set(name, answer.body.id);
  }
  const runs = await db.query<{ id: string; status: string }>(
    `insert into runs (export_id, team_id, status, data_interval_start, data_interval_end, finished_at)
     select $1, $2, status, at, at + interval '1 hour', case when status = 'Failed' then now() end
       from (values ('Failed', timestamptz '2024-03-01'), ('Starting', timestamptz '2024-03-02')) r (status, at) returning id, status`,
    [made.get('Kept'), tenant.projectIds[0]],
  );
  for (const { id, status } of runs) made.set(status, id);
  const failing = await storeExport(
    db,
    await exportOfThePast({ db, teamId: tenant.projectIds[1] }, {}),
  );
  await db.query(
    `update batch_exports set failing_since = now(), failing_code = 'internal.unexpected', failing_error = 'gone' where id = $1`,
    [failing?.id],
  );
  const causes = await sluice('operator', ['causes', '--json']);
  made.set('cause', (JSON.parse(causes.out) as { id: string }[])[0]?.id ?? '');
  made.set('organization', tenant.organizationId);
  const at = '2024-03-01T00:00:00.000000Z';
  const note = { request: unknownOrder, asked_at: at, rows: 1, files: [] };
  const change = { before: { rows: 2 }, after: { rows: 1 }, note };
  const booking = { kind: 'erased', start: at, end: at, at, ...change };
  await db.query(
    `insert into statements (export_id, number, body, sha256, period_start, period_end, balance) values ($1, 99, $2, '', now(), now(), '{}')`,
    [made.get('Kept'), Buffer.from(JSON.stringify({ bookings: [booking] }))],
  );
  await writeFile(path.join(folder, 'none.yaml'), 'exports: []\n');
});

type Who = 'owner' | 'operator' | 'here';

const sluice = (who: Who, args: readonly string[], changes: Record<string, string> = {}) =>
  runCli(args, { env: { ...env[who], ...changes } });

interface Row {
  readonly who: Who;
  /** `{name}` is what a row before it has made. */
  readonly args: readonly string[];
  /** Under which name its `id` is kept. */
  readonly keeps?: string;
  /** Default 0. */
  readonly code?: number;
  /** Whether it says something on standard error; default: if it fails. */
  readonly says?: true;
  /** It fails before it has an answer, so it prints no document. */
  readonly none?: true;
  /** One document per line, any number of lines. */
  readonly lines?: true;
}

const rowOf =
  (who: Who) =>
  (args: readonly string[], more: Partial<Row> = {}): Row => ({ who, args, ...more });
const owner = rowOf('owner');
const operator = rowOf('operator');
const here = rowOf('here');

const unknownOrder = '00000000-0000-4000-8000-000000000000';
const past = ['--from', '2024-03-01', '--to', '2024-03-01T02:00'];
const hook = ['--webhook', 'https://127.0.0.1:1/hook'];

/** Every verb, in an order in which each finds what it needs. */
const rows: Readonly<Record<string, Row>> = {
  'exports create': owner([
    ...['--set', 'name=Made', '--set', 'interval=day', '--set', 'model=order_totals'],
    ...['--set', 'destination={type: NoOp, config: {}}'],
  ]),
  'exports list': owner([]),
  'exports get': owner(['Kept']),
  'exports update': owner(['Kept', '--set', 'paused=false']),
  'exports pause': owner(['Kept']),
  'exports unpause': owner(['Kept']),
  'exports run': owner(['Kept']),
  'exports delete': owner(['Deleted', '--yes']),
  'exports test': owner(['Kept']),
  'exports preview': owner(['Kept']),
  'runs list': owner(['Kept']),
  'runs files': owner(['Kept', '{Failed}']),
  'runs link': owner(['Kept', '{Failed}'], { code: 1, none: true }),
  'runs cancel': owner(['Kept', '{Starting}']),
  'runs retry': owner(['Kept', '{Failed}']),
  'coverage list': owner(['Kept', ...past]),
  'coverage accept': owner(['Kept', ...past, '--yes']),
  changes: owner(['Kept']),
  statement: owner(['Kept']),
  certificate: owner(['Kept', unknownOrder]),
  'delivery-record': owner(['--month', '2024-03']),
  logs: owner(['Kept'], { lines: true }),
  status: owner([]),
  backfill: owner(['Kept', '--from', '2024-04-01', '--to', '2024-04-01T02:00', '--no-wait']),
  export: owner([]),
  apply: owner(['--file', '{folder}/none.yaml']),
  'transformations list': owner([]),
  'transformations plugins': owner([]),
  'transformations create': owner(['Drop properties', '--set', 'properties=plan', '--disabled'], {
    keeps: 'step',
  }),
  'transformations update': owner(['{step}', '--name', 'Renamed']),
  'transformations delete': owner(['{step}', '--yes']),
  'notifications create': owner(hook, { keeps: 'target' }),
  'notifications list': owner([]),
  'notifications edit': owner(['{target}', '--events', 'export.late']),
  // Nothing answers at its address.
  'notifications test': owner(['{target}'], { code: 1 }),
  'notifications deliveries': owner(['{target}']),
  'notifications disable': owner(['{target}']),
  'notifications enable': owner(['{target}']),
  'notifications rotate': owner(['{target}']),
  'notifications delete': owner(['{target}', '--yes']),
  'causes list': operator([]),
  'causes exports': operator(['{cause}']),
  'causes probe': operator(['{cause}', '--yes'], { says: true }),
  'causes retry': operator(['{cause}', '--yes'], { says: true }),
  'causes pause': operator(['{cause}', '--yes'], { says: true }),
  'organizations create': operator(['--name', 'Initech'], { keeps: 'initech' }),
  'organizations list': operator([]),
  'organizations usage': operator(['--month', '2024-03']),
  'organizations rename': operator(['{initech}', '--name', 'Initech']),
  'organizations disable': operator(['{initech}']),
  'organizations enable': operator(['{initech}']),
  'projects create': operator(['--organization', '{initech}', '--name', 'Web'], { keeps: 'web' }),
  'projects list': operator(['--organization', '{initech}']),
  'projects rename': operator(['{web}', '--name', 'Web']),
  'projects disable': operator(['{web}']),
  'projects enable': operator(['{web}']),
  'keys create': operator(['--organization', '{initech}', '--scopes', '*', '--name', 'k'], {
    keeps: 'key',
  }),
  'keys list': operator(['--operator']),
  'keys rotate': operator(['{key}']),
  'keys revoke': operator(['{key}']),
  'projects delete': operator(['{web}', '--organization', '{initech}', '--confirm', 'Web'], {
    keeps: 'offboarding',
  }),
  'organizations delete': operator(['{initech}', '--confirm', 'Initech']),
  'offboardings list': operator([]),
  'offboardings show': operator(['{offboarding}']),
  // No worker runs.
  doctor: here([], { code: 1 }),
  migrate: here([]),
  'keys rotate-encryption': here([]),
  'keys rotate-signing': here([]),
  'models list': here([]),
  // No project has a UUID as its key, which the line items need.
  'models check': here([], { code: 1 }),
  'models grants': here([]),
  // No model of the shop says its version.
  'models trigger': here(['orders'], { code: 1 }),
  // The run of an interval has failed.
  verify: here([], { code: 1 }),
  'erase find': here(['--export', '{Kept}', '--key', unknownOrder, '--column', 'orderId'], {
    says: true,
    lines: true,
  }),
  'erase rewrite': here(['--export', '{Kept}', '--key', unknownOrder, '--column', 'orderId'], {
    says: true,
    lines: true,
  }),
  'eras list': here([]),
  'eras accept': here([]),
  'work list': here([]),
  'work retry': here([]),
};

/** It starts a service. */
const withoutJson = ['quickstart'];

const verbs = new Map<string, Command>();
const collect = (command: Command, words: readonly string[]) => {
  // It only says where its commands are now.
  if (command.name() === 'admin') return;
  if (command.commands.length === 0) verbs.set(words.join(' '), command);
  for (const inner of command.commands) collect(inner, [...words, inner.name()]);
};
collect(createProgram({} as CliDeps, '0.0.0'), []);

const argsOf = (verb: string, { args }: Row): string[] => [
  ...verb.split(' '),
  ...args.map((arg) => arg.replaceAll(/\{([\w ]+)\}/g, (all, name) => textFor(name) ?? all)),
];
const textFor = (name: string): string | undefined =>
  ({ folder, project: env.owner.SLUICE_PROJECT })[name] ?? made.get(name);

/** Values that only the service, or nothing, can refuse. */
const freeText =
  '--search --customer --description --reason --name --run --project --file --set --tenant-key --key --column --confirm --export --organization --recipients'.split(
    ' ',
  );

/** One function gives these to each verb that asks the service: by day one verb refuses wrong values of them. */
const isOfService = ({ description }: Option) =>
  /^(the project|address of the API) /.test(description);

test('every verb has a row, and --json', () => {
  expect([...verbs.keys()].toSorted()).toEqual([...Object.keys(rows), ...withoutJson].toSorted());
  const lacking = Object.keys(rows).filter(
    (verb) => !verbs.get(verb)?.options.some(({ long }) => long === '--json'),
  );
  expect(lacking).toEqual([]);
});

describe.each(Object.entries(rows))('%s', (verb, row) => {
  const takesValue = ({ required }: Option) => required;
  const expectMisused = ({ code, out, err }: CliResult, args: readonly string[], named: string) => {
    expect([args, code, out, err]).toEqual([args, 2, '', expect.stringContaining(named)]);
  };

  test('refuses values that are empty or that it does not know, by name', async () => {
    const args = argsOf(verb, row);
    for (const option of verbs.get(verb)?.options.filter(takesValue) ?? []) {
      const { long } = option;
      if (!long) throw new Error(`${option.flags} has no long form`);
      if (isOfService(option) && verb !== 'exports create' && !isNightly) continue;
      for (const value of long === '--description' ? [] : firstByDay(1, [' ', ''])) {
        const wrong = [...args, long, value];
        expectMisused(await sluice(row.who, wrong), wrong, long);
      }
      if (freeText.includes(long)) continue;
      const wrong = [...args, long, 'no-such-value'];
      expectMisused(await sluice(row.who, wrong), wrong, long === '--url' ? 'SLUICE_URL' : long);
    }
    for (const [position, argument] of (verbs.get(verb)?.registeredArguments ?? []).entries()) {
      const at = verb.split(' ').length + position;
      const wrong = [...args.slice(0, at), '', ...args.slice(at + 1)];
      expectMisused(await sluice(row.who, wrong), wrong, argument.name());
    }
  });

  test('ends with 3 and prints nothing else if the service or the database is unreachable', async () => {
    const nowhere = { SLUICE_URL: 'http://127.0.0.1:1', DATABASE_URL: 'postgres://127.0.0.1:1/no' };
    const { code, out, err } = await sluice(row.who, [...argsOf(verb, row), '--json'], nowhere);
    // The sources of models are elsewhere.
    if (verb.startsWith('models ') && verb !== 'models check') return;
    // They say so in their answer.
    if (verb === 'doctor' || verb === 'models check') {
      expect([code, JSON.parse(out)]).toEqual([1, expect.any(Array)]);
      return;
    }
    expect([code, out, err]).toEqual([3, '', expect.stringMatching(/^(SLUICE|DATABASE)_URL: /)]);
  });

  // test/e2e/changes.test.ts has a model with a version, and runs what this prints.
  test.skipIf(verb === 'models trigger')(
    'prints one JSON document, or one per line where it says so',
    async () => {
      const { code, out, err } = await sluice(row.who, [...argsOf(verb, row), '--json']);
      const says = row.says || row.code ? expect.stringMatching(/^[^\n]+\n$/) : '';
      expect([code, err]).toEqual([row.code ?? 0, says]);
      if (row.none) {
        expect(out).toBe('');
        return;
      }
      expect(out).toMatch(row.lines ? /^([^\n]+\n)*$/ : /^[^\n]+\n$/);
      const documents = out
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as unknown);
      if (row.keeps) made.set(row.keeps, String(([documents[0]].flat()[0] as { id: unknown }).id));
    },
  );
});
