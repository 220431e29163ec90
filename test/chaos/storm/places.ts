import { projectPath } from '../../support/exported-events.ts';
import { bucket } from '../../support/installation.ts';
import { until } from '../../support/until.ts';
import { retrySetAsideWork, untilIdle } from './calm.ts';
import { randomOf } from '../../support/random.ts';
import { act, elsewhere, persistently, type StormExport, type World } from './world.ts';

/** The places of an export that moves: its bucket, the same by another address, and another bucket. */
const moves = [
  { bucket_name: bucket, host: '127.0.0.1' },
  { bucket_name: bucket, host: 'localhost' },
  { bucket_name: elsewhere, host: '127.0.0.1' },
] as const;

const moving = ({ exports }: World): StormExport | undefined =>
  exports.find(({ changes }) => changes === 'prefix');

/** An operator who moves an export to another bucket, to another address of its own, and back. */
export async function moveBuckets(world: World, signal: AbortSignal): Promise<void> {
  const random = randomOf(world.seed, 'places');
  const target = moving(world);
  if (!target) return;
  await act(
    signal,
    () => random.between(3_000, 10_000),
    async () => {
      await moveTo(world, target, random.pick<(typeof moves)[number]>(moves));
      world.counts.moved += 1;
    },
  );
}

async function moveTo(
  { installation, surprises }: World,
  { id }: StormExport,
  { bucket_name, host }: (typeof moves)[number],
): Promise<void> {
  const { port } = new URL(installation.s3.endpoint);
  const config = { bucket_name, endpoint_url: `http://${host}:${port}` };
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  const answer = await installation.client.patch(path, { destination: { type: 'S3', config } });
  if (answer.status >= 400 && answer.status < 500) surprises.push(`a move: ${answer.text}`);
  if (answer.status !== 200) throw new Error(`the export did not move: ${answer.text}`);
}

/**
 * After the storm: the export comes back to its bucket, and what it has exported elsewhere runs again there. Waits until the
 * sweep has found out which addresses are one place, and has removed what was replaced.
 */
export async function comeHome(world: World): Promise<void> {
  const { installation } = world;
  const target = moving(world);
  if (!target) return;
  await persistently(() => moveTo(world, target, moves[0]));
  await retrySetAsideWork(world);
  const { pool } = installation;
  await until(
    async () => {
      await pool.query('update former_destinations set compare_after = null');
      const uncompared = `select from former_destinations f join batch_exports e on e.id = f.export_id
         where e.id = $1 and f.compared_with is distinct from e.destination_version`;
      return (await pool.query(uncompared, [target.id])).rowCount === 0;
    },
    { timeoutMs: 180_000, everyMs: 1_000, message: 'all places are compared' },
  );
  await makeAnew(world, target, 'f.destination_version <> e.destination_version');
  await untilIdle(world);
  await until(
    async () => {
      await pool.query('update leftover_files set tried_at = null');
      const replaced = `select from leftover_files f join receipts c using (export_id, data_interval_start, data_interval_end, destination_version)
         where f.export_id = $1 and f.generation < c.generation and f.deleted_at is null`;
      return (await pool.query(replaced, [target.id])).rowCount === 0;
    },
    { timeoutMs: 180_000, everyMs: 1_000, message: 'what was replaced is removed' },
  );
}

/** Late rows of an interval whose files are at another place wait for a person. This one makes the interval anew. */
export async function decideLateRows(world: World): Promise<void> {
  const target = moving(world);
  if (!target) return;
  await makeAnew(world, target, 'f.late_rows_wait is not null');
  await untilIdle(world);
}

/** Retries the intervals of an export whose receipt `f` meets the condition, whatever has left the source. */
async function makeAnew(
  { installation }: World,
  { id: exportId }: StormExport,
  condition: string,
): Promise<void> {
  const { client, pool } = installation;
  const { rows } = await pool.query<{ id: string }>(
    `select (select r.id from runs r where r.export_id = f.export_id and r.data_interval_start = f.data_interval_start
                  and r.purpose = 'whole' order by r.generation desc limit 1) as id
       from receipts f join batch_exports e on e.id = f.export_id
      where e.id = $1 and ${condition}`,
    [exportId],
  );
  for (const { id } of rows) {
    const path = `${projectPath(installation)}/batch_exports/${exportId}/runs/${id}/retry/`;
    await persistently(() => client.post(path, { missing_rows: 'drop' }));
  }
}
