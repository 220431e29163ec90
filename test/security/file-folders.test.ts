import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { destinationOf, registry } from '../../src/main/connectors.ts';
import { contextWith, options, owner, recordingJournal } from '../conformance/destination-suite.ts';
import type { ApiClient } from '../support/api-client.ts';
import { startApiBeside, useApi } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { createTenant } from '../support/tenants.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { useStage } from '../support/use-stage.ts';

const root = folderOfTests();
const api = useApi();
const beside = useStage(() =>
  startApiBeside(api, ({ destinationContext }) => ({
    destinationContext: { ...destinationContext, fileDestinationRoot: root },
  })),
);

interface Tenant {
  readonly client: ApiClient;
  readonly teamId: number;
  readonly exports: string;
}

async function newTenant(): Promise<Tenant> {
  const { key, projectIds } = await createTenant(api.db);
  const [teamId] = projectIds;
  const client = beside.client.withKey(key);
  return { client, teamId, exports: `/api/projects/${teamId}/batch_exports` };
}

async function create({ client, exports }: Tenant, config: Readonly<Record<string, unknown>>) {
  const body = exportBody({ destination: { type: 'File', config } });
  const answer = await client.post(exports, body);
  expect(answer.status, answer.text).toBe(201);
  return { path: `${exports}/${answer.body.id}`, id: answer.body.id };
}

/** Writes a file as a run of that export does. */
async function write(id: string, key: string, text: string): Promise<void> {
  const [row] = await api.sql<{ config: Record<string, unknown> }>`select destination_config
    as config from batch_exports where id = ${id}`;
  const context = contextWith({ fileDestinationRoot: root });
  const destination = destinationOf(registry, 'File').open(row?.config ?? {}, context, owner);
  const writer = await destination.createFile(options(key), recordingJournal().journal);
  await writer.write(Buffer.from(text));
  await writer.complete();
}

const directoryOf = async ({ client }: Tenant, path: string) =>
  (await client.get(path)).body.destination.config.directory;

test('two tenants with the same directory and keys keep their own files', async () => {
  const [first, second] = [await newTenant(), await newTenant()];
  const config = { directory: 'exports/acme', prefix: 'a', manifest: false };
  const created = [await create(first, config), await create(second, config)];
  for (const [index, { id }] of created.entries()) await write(id, 'a/x.jsonl', `of ${index}`);
  for (const [index, { teamId }] of [first, second].entries()) {
    const file = join(root, String(teamId), 'exports/acme/a/x.jsonl');
    expect(await readFile(file, 'utf8')).toBe(`of ${index}`);
  }
  expect((await readdir(root)).sort()).toEqual([first, second].map((t) => `${t.teamId}`).sort());
});

test('no directory leads into the folder of another project', async () => {
  const [victim, attacker] = [await newTenant(), await newTenant()];
  await write((await create(victim, { directory: 'a' })).id, 'x', 'of the victim');
  const own = `${attacker.teamId}/${victim.teamId}/a`;
  const { path } = await create(attacker, { directory: `${victim.teamId}/a` });
  expect(await directoryOf(attacker, path)).toBe(own);
  const change = (directory: string) =>
    attacker.client.patch(path, { destination: { config: { directory } } });
  expect((await change(`${victim.teamId}/b`)).body.destination.config.directory).toBe(
    `${attacker.teamId}/${victim.teamId}/b`,
  );
  for (const directory of [
    `../${victim.teamId}/a`,
    `/${victim.teamId}/a`,
    `./${victim.teamId}`,
    `${attacker.teamId}/../${victim.teamId}/a`,
  ]) {
    expect((await change(directory)).status, directory).toBe(400);
  }
});

test('a directory that is sent as it was shown stays the same', async () => {
  const tenant = await newTenant();
  const { path } = await create(tenant, { directory: 'a' });
  for (const directory of ['a', `${tenant.teamId}/a`]) {
    await tenant.client.patch(path, { destination: { config: { directory } } });
    expect(await directoryOf(tenant, path)).toBe(`${tenant.teamId}/a`);
  }
});
