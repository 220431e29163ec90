import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { OpenUpload } from '../destination.ts';
import { withOurErrors } from './errors.ts';
import { hiddenPrefix, ignore } from './folders.ts';

interface Found {
  readonly key: string;
  readonly path: string;
  readonly entry: Dirent;
}

/** Files below `folder` whose key starts with `prefix`, in the order of their keys' bytes. */
export async function* listFiles(
  folder: string,
  prefix: string,
): AsyncGenerator<{ readonly key: string; readonly bytes: number }> {
  for await (const { key, path, entry } of walk(folder, '', prefix)) {
    if (entry.name.startsWith(hiddenPrefix) || !key.startsWith(prefix)) continue;
    const found = await lstat(path).catch(ignore('ENOENT'));
    if (found) yield { key, bytes: found.size };
  }
}

/** Hidden files of uploads whose key starts with `prefix`; see `hiddenName`. */
export async function* listUploads(folder: string, prefix: string): AsyncGenerator<OpenUpload> {
  for await (const { key: hiddenKey, path, entry } of walk(folder, '', prefix)) {
    const [, uploadId, name] = /^\.sluice-([0-9a-f-]{36})-(.+)$/.exec(entry.name) ?? [];
    if (uploadId === undefined || name === undefined) continue;
    const key = `${hiddenKey.slice(0, -entry.name.length)}${name}`;
    const found = await lstat(path).catch(ignore('ENOENT'));
    if (found && key.startsWith(prefix)) yield { key, uploadId, startedAt: found.birthtimeMs };
  }
}

/** Every file below a folder, hidden ones too; follows no link. */
async function* walk(folder: string, at: string, prefix: string): AsyncGenerator<Found> {
  const entries = await withOurErrors(() => readdir(folder, { withFileTypes: true }));
  // A folder sorts as its keys do: with the slash.
  const sortKey = (entry: Dirent) =>
    Buffer.from(entry.isDirectory() ? `${entry.name}/` : entry.name);
  entries.sort((a, b) => Buffer.compare(sortKey(a), sortKey(b)));
  for (const entry of entries) {
    const key = `${at}${entry.name}`;
    const path = join(folder, entry.name);
    if (entry.isFile()) yield { key, path, entry };
    else if (entry.isDirectory() && overlaps(`${key}/`, prefix))
      yield* walk(path, `${key}/`, prefix);
  }
}

/** Whether a folder can hold keys with the prefix. */
function overlaps(folder: string, prefix: string): boolean {
  return folder.startsWith(prefix) || prefix.startsWith(folder);
}
