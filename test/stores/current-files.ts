import { expect } from 'vitest';
import { hour, projectPath } from '../support/exported-events.ts';
import { bucket, type Installation } from '../support/installation.ts';
import { unpack } from '../support/unpack.ts';
import { until } from '../support/until.ts';

/** What a reader of an interval gets: its manifest and the rows of the files that it names. */
export interface CurrentFiles {
  /** The manifest's bytes as they are. */
  readonly manifest: string;
  readonly files: readonly string[];
  /** Objects of the export that are neither the manifest nor named by it. */
  readonly strays: readonly string[];
  /** Of the rows, sorted. */
  readonly uuids: readonly string[];
}

/** Reads the files of an export of JSON Lines that has one interval. */
export async function readCurrent({ s3 }: Installation, exportId: string): Promise<CurrentFiles> {
  const objects = await s3.objects(bucket);
  const keys = objects.map(({ key }) => key).filter((key) => key.startsWith(`${exportId}/`));
  const manifests = keys.filter((key) => key.endsWith('_manifest.json'));
  expect(manifests, `one manifest in ${keys.join(', ')}`).toHaveLength(1);
  const manifest = (await s3.body(bucket, manifests[0] ?? '')).toString();
  const { files: named, compression } = JSON.parse(manifest);
  const files: string[] = named.map(({ key }: { key: string }) => key);
  const uuids: string[] = [];
  for (const key of files) {
    const text = await unpack(compression, await s3.body(bucket, key));
    for (const line of text.toString().split('\n')) {
      if (line !== '') uuids.push(JSON.parse(line).uuid);
    }
  }
  const strays = keys.filter((key) => key !== manifests[0] && !files.includes(key));
  return { manifest, files, strays, uuids: uuids.sort() };
}

/**
 * The same, once nothing else is left: what a commit replaced is deleted after its run has ended, and a day
 * later if the store has no conditional writes. The day passes here.
 */
export async function untilNoStrays(
  installation: Installation,
  exportId: string,
): Promise<CurrentFiles> {
  await installation.sql`update leftover_files set noted_at = noted_at - interval '1 day',
    deleted_at = deleted_at - interval '1 day', tried_at = null`;
  return await until(
    async () => {
      const found = await readCurrent(installation, exportId);
      return found.strays.length === 0 ? found : null;
    },
    { timeoutMs: 30_000, message: `no stray file is left of ${exportId}` },
  );
}

/** The rows that an interval must hold, sorted. */
export async function readSource(
  { sql, tenant }: Installation,
  { start, end }: { readonly start: string; readonly end: string } = hour,
): Promise<readonly string[]> {
  const { rows } = await sql<{ uuid: string }>`select uuid::text from events
    where team_id = ${tenant.projectIds[0]} and inserted_at >= ${start} and inserted_at < ${end}`;
  return rows.map(({ uuid }) => uuid).sort();
}

/** Changes how an export writes its files, so that the next run of an interval has other bytes. */
export async function setCompression(
  installation: Installation,
  exportId: string,
  compression: 'gzip' | null,
): Promise<void> {
  const path = `${projectPath(installation)}/batch_exports/${exportId}/`;
  const change = { destination: { config: { compression } } };
  const { status, text } = await installation.client.patch(path, change);
  expect(status, text).toBe(200);
}
