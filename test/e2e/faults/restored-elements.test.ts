import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { supersede } from '../../../src/state/store/intervals/superseded.ts';
import { copyPlace, makeStatement } from '../../support/checked-place.ts';
import { runCli } from '../../support/cli.ts';
import { testServer } from '../../support/database.ts';
import { withClient } from '../../support/drop-database.ts';
import { createCustomers, customers, elementRuns } from '../../support/element-runs.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { folderOfTests } from '../../support/own-folder.ts';
import { checkers, runChecker } from '../../support/run-checker.ts';
import { shopModels } from '../../support/stranger-shop.ts';
import { useStage } from '../../support/use-stage.ts';

const folder = folderOfTests();

afterAll(() => asAdmin(`drop database if exists ${nameOf()}_backup with (force)`));
const installation = useStage(async () => {
  const file = path.join(folder, 'models.yaml');
  await writeFile(file, stringify({ models: [...shopModels, customers] }));
  return startInstallation({ workers: 1, env: { MODELS_FILE: file } });
});
beforeAll(() => createCustomers(installation));

const nameOf = () => new URL(installation.databaseUrl).pathname.slice(1);

const asAdmin = (sql: string) => withClient(testServer().adminUrl, (client) => client.query(sql));

/** Makes a database from another one. No session may need the old one. */
async function copy(from: string, to: string): Promise<void> {
  await asAdmin(`drop database if exists ${to} with (force)`);
  await asAdmin(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${from}'`);
  await asAdmin(`create database ${to} owner ${testServer().owner.name} template ${from}`);
}

/** Does something with our database while the service is down. */
async function whileDown(work: () => Promise<void>): Promise<void> {
  await installation.stopAll();
  await work();
  await installation.startApi();
  await installation.startWorker();
}

test('a database that is older than the bucket gives no element a number again, and says where the chain broke', async () => {
  const { account, hourOf, take, write, remove, createChanges, elementsOf, openReader } =
    elementRuns(() => installation);
  const name = nameOf();
  await write(1, 'Ada');
  const [known, untaken] = [await createChanges(), await createChanges({ name: 'Not begun' })];
  await take(known, 0);
  await makeStatement(installation, known);
  await whileDown(() => copy(name, `${name}_backup`));

  // What the backup does not know.
  for (const [index, changed] of ['Eve', 'Eva', 'Evi'].entries()) {
    await write(2, changed);
    await take(known, index + 1);
    await take(untaken, index);
  }
  await remove(1);
  await take(known, 4);
  const lost = await makeStatement(installation, known);
  const readers = [openReader(known), openReader(untaken)];
  expect(await readers[0]?.()).toEqual({ 2: 'Evi' });
  expect(await readers[1]?.()).toEqual({ 1: 'Ada', 2: 'Evi' });
  await whileDown(() => copy(`${name}_backup`, name));
  const accepted = await runCli(['eras', 'accept'], { env: installation.env });
  expect(accepted.code, accepted.output).toBe(0);

  await write(3, 'Hal');
  for (const id of [known, untaken]) {
    // As the schedule does with the ticks that it finds due again.
    const passed = { exportId: id, teamId: account(), run: null, newest: hourOf(4).start };
    await supersede(installation.db, [{ ...passed, intervals: [1, 2, 3].map(hourOf) }]);
    // An interval that the bucket has, and a new one.
    await take(id, 4);
    await write(4, 'Ida');
    await take(id, 5);
    const elements = await elementsOf(id);
    const numbers = elements.map(({ element }) => element.number);
    expect(numbers).toEqual([...new Set(numbers)]);
    expect(elements.at(-2)?.element).toMatchObject({
      follows: null,
      base: 'our database was restored, copied or failed over',
    });
  }
  for (const read of [...readers, openReader(known), openReader(untaken)]) {
    expect(await read()).toEqual({ 2: 'Evi', 3: 'Hal', 4: 'Ida' });
  }
  // The first one finds the statements that our database has forgotten.
  await makeStatement(installation, known);
  const after = await makeStatement(installation, known);
  expect(Number(after.number)).toBeGreaterThan(Number(lost.number));
  const { s3 } = installation;
  const statements = (await s3.objects(bucket)).filter(({ key }) =>
    key.startsWith(`${known}/_sluice/statements/`),
  );
  const begun = await Promise.all(
    statements.map(async ({ key }) => JSON.parse(String(await s3.body(bucket, key))).begins),
  );
  expect(begun).toContain('restored');
  // The new chain says of the elements that only the lost history knew that a base replaced them.
  const copied = await copyPlace(installation, known, folder);
  for (const checker of checkers) expect(await runChecker(checker, copied)).toMatch(/^0: /);
}, 180_000);
