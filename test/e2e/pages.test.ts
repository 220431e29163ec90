import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { testServer } from '../support/database.ts';
import { withClient } from '../support/drop-database.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { startInstallation } from '../support/installation.ts';
import { folderOfTests } from '../support/own-folder.ts';
import { readCommands, runCommands } from '../support/page-commands.ts';
import { projectRoot } from '../support/processes.ts';
import { createKey } from '../support/tenants.ts';
import { urlOf } from '../support/template-database.ts';
import { useStage } from '../support/use-stage.ts';

/** Blocks of pages that no other test runs, on one installation, as a person would type them. */

const folder = folderOfTests();
const installation = useStage(() => startInstallation({ workers: 1 }));

/** Of a page of `docs`, in their order. */
function blocksOf(page: string, language: string): readonly string[] {
  const text = readFileSync(path.join(projectRoot, 'docs', page), 'utf8');
  return [...text.matchAll(/^ *```(\w+)\n([\s\S]*?)^ *```$/gm)].flatMap(([, found, block = '']) =>
    found === language ? [block] : [],
  );
}

/** @returns what the commands print */
async function type(commands: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
  const { client, tenant } = installation;
  const { code, output } = await runCommands(commands, {
    cwd: folder,
    bin: folder,
    env: { ...installation.env, SLUICE_URL: client.baseUrl, SLUICE_KEY: tenant.key, ...env },
  });
  expect(code, `${commands}\n${output}`).toBe(0);
  return output;
}

/** Works in the database of the service as the administrator of its server does. The end of the session rolls back what is open. */
const asAdministrator = (work: (client: Client) => Promise<void>) =>
  withClient(urlOf(testServer(), new URL(installation.databaseUrl).pathname.slice(1), true), work);

test('notifications.md: a target is created with curl', async () => {
  const [block = ''] = readCommands('notifications.md');
  const project = String(installation.tenant.projectIds[0]);
  const created = await type(
    block.replace('@current', project).replace('curl ', 'curl -sS --fail-with-body '),
  );
  expect(JSON.parse(created)).toMatchObject({
    kind: 'webhook',
    secret: expect.stringMatching(/^whsec_/),
  });
});

test('models.md and settling.md: a project has the key of the customer, and a role that dumps can write nothing', async () => {
  const { key } = await createKey(installation.db, { organizationId: null });
  const env = { SLUICE_KEY: key };
  const organization = await type('sluice organizations create --name Initech --json', env);
  const [block = ''] = readCommands('models.md');
  const ORG = String(JSON.parse(organization).id);
  expect(await type(block, { ORG, ...env })).toMatch(
    /^tenant_key +6f1d2c3b-5a7e-4c0d-9b1e-2f3a4b5c6d7e$/m,
  );
  const [role = ''] = blocksOf('settling.md', 'sql');
  await asAdministrator(async (client) => {
    // Roles belong to the whole server.
    await client.query(`begin; ${role.replaceAll('dumper', 'dumper_of_pages')}`);
    await client.query('set local role dumper_of_pages');
    await expect(client.query('insert into events (team_id) values (1)')).rejects.toThrow(
      /permission denied/,
    );
  });
});

test('security.md: the role of the source reads the rows of the project that is set, and no others', async () => {
  const [block = ''] = blocksOf('security.md', 'sql');
  await asAdministrator(async (client) => {
    await client.query(
      `begin; create table orders (id int, team_id int); insert into orders values (1, 1), (2, 2);
       ${block.replaceAll('sluice_source', 'source_of_pages')}`,
    );
    await client.query(`set local role source_of_pages; set local sluice.tenant_key = '2'`);
    expect((await client.query('select id from orders')).rows).toEqual([{ id: 2 }]);
  });
});

test('transformations.md: the plugin of the page computes, and drops', async () => {
  const { client, tenant } = installation;
  const [source = ''] = blocksOf('transformations.md', 'ts');
  const plugins = `/api/organizations/${tenant.organizationId}/plugins`;
  const plugin = await client.post(plugins, {
    name: 'Totals',
    source,
    config_schema: [{ key: 'rate', name: 'Rate', type: 'string' }],
  });
  expect(plugin.status, plugin.text).toBe(201);
  const row = (event: string) => ({ event, distinct_id: 'x', properties: { price: 2 } });
  const tried = await client.post(`/api/projects/${tenant.projectIds[0]}/batch_exports/preview`, {
    trace: true,
    configs: [{ plugin: plugin.body.id, config: { rate: '3' } }],
    rows: [row('sale'), row('$pageleave')],
  });
  expect(tried.status, tried.text).toBe(200);
  expect(tried.text).toMatch(/"total": ?6/);
  expect(tried.text).toContain('dropped');
});

test('offboarding.md: a person is erased, then a project and its organization are deleted', async () => {
  const { pool } = installation;
  const tenant = await installation.addTenant();
  const own = { ...installation, tenant, client: installation.client.withKey(tenant.key) };
  const [team] = tenant.projectIds;
  await insertEvents(pool, { team, rows: 50 });
  const id = await createS3Export(own, { name: 'Rows of a person' });
  await backfill(own, id, hour);
  await untilEnded(own, id);
  const [removal = '', erasure = ''] = readCommands('offboarding.md');
  const [find = '', rewrite = ''] = erasure.split(/^# 2\..*$/m);
  const { key } = await createKey(installation.db, { organizationId: null });
  const env = {
    ...{ EXPORT: 'Rows of a person', ORG: tenant.organizationId, PROJECT: String(team) },
    SLUICE_KEY: key,
  };
  expect(await type(find, env)).toMatch(/^[1-9]\d* rows? in the current files of 1 interval\./m);
  // Of two exports with the name, none is taken.
  const other = await createS3Export(own, { name: 'Rows of a person' });
  const { code, output } = await runCommands(find, {
    cwd: folder,
    bin: folder,
    env: { ...installation.env, ...env },
  });
  expect([code, output]).toEqual([
    1,
    `2 exports are named "Rows of a person". Use an id: ${id}, ${other}.\n`,
  ]);
  await own.client.delete(`/api/projects/${team}/batch_exports/${other}`);
  await pool.query(`delete from events where distinct_id = 'user 42'`);
  expect(await type(rewrite, env)).toContain('Proven: of 1 interval, none has the key');
  await pool.query(`update projects set name = 'Website' where id = $1`, [team]);
  expect(await type(removal, env)).toMatch(/^status +(cancelling|deleting|settling|completed)$/m);
});
