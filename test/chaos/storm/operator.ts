import { backfill, projectPath } from '../../support/exported-events.ts';
import type { Installation } from '../../support/installation.ts';
import { randomOf } from '../../support/random.ts';
import { act, past, persistently, type StormExport, type World } from './world.ts';

const formats = [
  { file_format: 'JSONLines', compression: null },
  { file_format: 'JSONLines', compression: 'gzip' },
  { file_format: 'JSONLines', compression: 'zstd' },
  { file_format: 'CSV', compression: null },
  { file_format: 'CSV', compression: 'gzip' },
  { file_format: 'Parquet', compression: 'zstd' },
  { file_format: 'Parquet', compression: 'snappy' },
] as const;
const folders = ['a', 'b', 'c'] as const;

/** The first backfill of each export: what is delivered then can be pruned, moved and erased. */
export async function backfillAll({ installation, exports }: World): Promise<void> {
  for (const target of exports) await persistently(() => backfillIfIdle(installation, target));
}

/** An operator who changes formats, prefixes and manifests, and runs intervals again and again. */
export async function operate(world: World, signal: AbortSignal): Promise<void> {
  const { installation, exports, seed } = world;
  const random = randomOf(seed, 'operator');
  const [first, ...others] = exports;
  if (!first) return;
  await act(
    signal,
    () => random.between(300, 1_500),
    async () => {
      const target = random.pick([first, ...others]);
      const kind = random.next();
      const format = random.pick<(typeof formats)[number]>(formats);
      const folder = random.pick(folders);
      const manifest = random.chance(0.5);
      const which = random.next();
      if (kind < 0.35) await backfillIfIdle(installation, target);
      else if (kind < 0.75) await retryOne(installation, target, which);
      else if (target.changes === 'prefix' && which < 0.6)
        await change(world, target, { prefix: `{batch_export_id}/${folder}` });
      else if (target.changes === 'manifest' && which < 0.6)
        await change(world, target, { manifest });
      else await change(world, target, format);
    },
  );
}

async function change(
  { installation, surprises }: World,
  { id }: StormExport,
  config: Readonly<Record<string, unknown>>,
): Promise<void> {
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  const answer = await installation.client.patch(path, { destination: { type: 'S3', config } });
  if (answer.status >= 400 && answer.status < 500) surprises.push(`PATCH: ${answer.text}`);
}

async function backfillIfIdle(installation: Installation, { id }: StormExport): Promise<void> {
  const { rowCount } = await installation.sql`select from backfills where export_id = ${id}
    and status = 'Running'`;
  if (rowCount === 0) await backfill(installation, id, past, { concurrency: 6 });
}

async function retryOne(installation: Installation, { id }: StormExport, which: number) {
  const { rows } = await installation.sql<{ id: string }>`select id from runs
    where export_id = ${id} and status not in ('Starting', 'Running') order by created_at, id`;
  const run = rows[Math.floor(which * rows.length)];
  if (!run) return;
  const path = `${projectPath(installation)}/batch_exports/${id}/runs/${run.id}/retry/`;
  await installation.client.post(path);
}
