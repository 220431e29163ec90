import { expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { startInstallation } from '../support/installation.ts';
import { startBundled } from '../support/processes.ts';
import { useStage } from '../support/use-stage.ts';

const installation = useStage(() => startInstallation({ workers: 1 }));

async function sluice(...args: string[]) {
  const command = startBundled('clients/cli/sluice.js', args, { env: installation.env });
  const { code } = await command.waitForExit(150_000);
  return { code, output: command.output(), lines: command.output().trim().split('\n') };
}

test('one request erases a person from all exports of an organization, and says the result of each', async () => {
  const { pool, tenant } = installation;
  const [team] = tenant.projectIds;
  await insertEvents(pool, { team, rows: 20 });
  const person = 'in all exports';
  const ofPerson = `uuid in (select uuid from events where team_id = $2 and inserted_at < $3 limit 2)`;
  await pool.query(`update events set distinct_id = $1 where ${ofPerson}`, [
    person,
    team,
    hour.end,
  ]);
  const first = await createS3Export(installation, { name: 'First' });
  const second = await createS3Export(installation, { name: 'Second' });
  // Its files do not have the column.
  const without = 'select uuid, inserted_at from events';
  const third = await createS3Export(installation, { name: 'Third', dsl_query: without });
  for (const id of [first, second, third]) {
    await backfill(installation, id);
    await untilEnded(installation, id);
  }
  const asked = ['--key', person, '--column', 'distinct_id'];
  const ofAll = ['--organization', tenant.organizationId, ...asked];

  const found = await sluice('erase', 'find', ...ofAll, '--json');
  expect(found.code, found.output).toBe(1);
  const lines = found.lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  expect(lines.filter(({ rows }) => rows > 0)).toMatchObject([
    { export: first, rows: 2 },
    { export: second, rows: 2 },
  ]);
  expect(lines.filter((line) => 'error' in line)).toMatchObject([
    { export: first, name: 'First', error: null },
    { export: second, name: 'Second', error: null },
    { export: third, error: expect.stringContaining('could not be searched') },
  ]);

  // A failure of one does not stop the others.
  await pool.query('delete from events where distinct_id = $1', [person]);
  const rewritten = await sluice('erase', 'rewrite', ...ofAll);
  expect(rewritten.code, rewritten.output).toBe(1);
  expect(rewritten.output.match(/Proven: of 1 interval, none has the key/g)).toHaveLength(2);
  expect(rewritten.output).toContain('1 of 3 exports failed');
  const client = installation.client;
  await client.delete(`/api/projects/${team}/batch_exports/${third}`);
  // What is done is not done twice.
  const again = await sluice('erase', 'rewrite', ...ofAll);
  expect(again.code, again.output).toBe(0);
  expect(again.output.match(/nothing to rewrite/g)).toHaveLength(2);

  for (const wrong of [[], [...ofAll.slice(0, 2), '--export', first]]) {
    const refused = await sluice('erase', 'find', ...wrong, ...asked);
    expect([refused.code, refused.output]).toEqual([2, expect.stringContaining('Name either')]);
  }
  const unknown = await sluice('erase', 'find', '--organization', 'unknown', ...asked);
  expect([unknown.code, unknown.output]).toEqual([1, expect.stringContaining('no organization')]);
  for (const id of [first, second])
    await client.delete(`/api/projects/${team}/batch_exports/${id}`);
});
