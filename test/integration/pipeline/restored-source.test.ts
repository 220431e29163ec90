import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import {
  changingModel,
  comparedModel,
  createChangingTable,
  tenant,
  runSql,
} from '../../support/changing-table.ts';
import { openedBy } from '../../support/interval-bench.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { follow, SequenceReader, SequenceSide } from '../../support/sequence-side.ts';
import { chooseClients } from '../../support/stock-postgres.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { inTest } from '../../support/use-stage.ts';

const bin = chooseClients();
const run = promisify(execFile);

let server: OwnPostgres;
let other: OwnPostgres;
const folder = folderOfTests();

beforeAll(async () => {
  [server, other] = await Promise.all([startOwnPostgres(), startOwnPostgres()]);
  await createChangingTable(server.adminUrl);
}, 120_000);
afterAll(() => Promise.all([server?.stop(), other?.stop()]));
beforeEach(() => runSql(server.adminUrl, 'truncate things, gone', insert(1), insert(2)));

const insert = (id: number) =>
  `insert into things values (${id}, ${tenant}, ${id % 2}, 'row ${id}', 1.50)`;

/** An export whose source can be moved to another address. */
async function openMoving(model: Model) {
  const opened = await inTest(openedBy.File());
  const sourceAt = (connectionString: string) =>
    createPostgresSource({ connectionString, plan: planModels([model]) });
  const side = new SequenceSide(sourceAt(server.adminUrl), opened.destination);
  const reader = new SequenceReader();
  const next = () => follow(side, reader, opened.destination);
  return { side, reader, next, readFrom: (url: string) => side.readFrom(sourceAt(url)) };
}

/** Restores a dump of the source as another database. @returns its address */
async function restoreInto(to: OwnPostgres, name: string): Promise<string> {
  const file = path.join(folder, 'dump');
  const program = (tool: string) => path.join(bin ?? '', tool);
  await run(program('pg_dump'), ['--format=custom', `--file=${file}`, server.adminUrl]);
  await runSql(to.adminUrl, `create database ${name}`);
  const url = new URL(to.adminUrl);
  url.pathname = `/${name}`;
  await run(program('pg_restore'), ['--no-owner', '--no-acl', `--dbname=${url.href}`, file]);
  return url.href;
}

it.runIf(bin !== null).each([
  ['another server', () => other, 'tombstones', changingModel],
  ['another database of the server', () => server, 'comparison', comparedModel(1)],
] as const)(
  'a source that was restored from a dump into %s makes a base, and goes on',
  async (_, to, kind, model) => {
    const { side, reader, next, readFrom } = await openMoving(model);
    expect(await next()).toBe('first');
    await runSql(server.adminUrl, insert(3), 'delete from things where id = 1');
    expect(await next()).toBe(null);
    const url = await restoreInto(to(), `restored_by_${kind}`);
    // Neither the dump nor the new source has this row.
    await runSql(server.adminUrl, insert(4));
    expect([await next(), reader.rows.has('4')]).toEqual([null, true]);
    readFrom(url);
    await runSql(url, 'delete from things where id = 2', insert(5));
    expect(await next()).toBe('server');
    expect(side.logged.at(-1)).toContain('the source is another server, or was restored');
    expect([...reader.rows.keys()].toSorted()).toEqual(['3', '5']);
    await runSql(url, 'delete from things where id = 3', `update things set note = 'new'`);
    expect([await next(), [...reader.rows.keys()]]).toEqual([null, ['5']]);
  },
  60_000,
);

it('a server whose disk was set back has lower transaction ids, which makes a base and is said', async () => {
  const { side, reader, next } = await openMoving(changingModel);
  await next();
  const before = path.join(folder, 'before');
  const copy = (from: string, to: string) => run('cp', ['-a', from, to]);
  await server.restart('fast', () => copy(server.data, before));
  const spend = 'select pg_current_xact_id()';
  await runSql(server.adminUrl, insert(3), ...Array<string>(50).fill(spend));
  expect(await next()).toBe(null);
  await server.restart('fast', async () => {
    await rm(server.data, { recursive: true });
    await copy(before, server.data);
  });
  await runSql(server.adminUrl, insert(4));
  expect(await next()).toBe('counter');
  expect(side.logged.at(-1)).toContain('source.version_counter_lower: the transaction ids');
  expect([...reader.rows.keys()].toSorted()).toEqual(['1', '2', '4']);
  await runSql(server.adminUrl, 'delete from things where id = 4');
  expect([await next(), reader.rows.size]).toEqual([null, 2]);
}, 60_000);
