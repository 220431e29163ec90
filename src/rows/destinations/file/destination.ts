import { randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { SluiceError, toSluiceError } from '../../../foundation/domain/errors.ts';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import { compareKeys } from '../../../foundation/domain/object-keys.ts';
import {
  allTraits,
  type CheckStep,
  type Destination,
  type OpenObject,
  type ReadOptions,
  type StoreTraits,
  type UploadRef,
  unrecorded,
} from '../destination.ts';
import { toDestinationError, withOurErrors } from './errors.ts';
import {
  findFolder,
  removeEmptyPartitions,
  hiddenPrefix,
  ignore,
  openForRead,
  splitKey,
} from './folders.ts';
import { commitManifest, fileTag, readOwner, tagOf } from './manifest.ts';
import { createWriter, removeFile, removeHidden } from './writer.ts';

const traits: StoreTraits = { ...allTraits, checksums: false };

/** @param syncBytes bytes between two syncs to the disk; the journal is notified of each */
export function openFileDestination(
  root: string,
  folders: readonly string[],
  syncBytes: number,
): Destination {
  /** Works on the path of a key; null if its folder does not exist. */
  const at = <T>(
    key: string,
    work: (path: string, folder: string, name: string) => Promise<T>,
  ): Promise<T | null> => {
    const { folders: inner, name } = splitKey(key);
    return withOurErrors(async () => {
      const folder = await findFolder(root, [...folders, ...inner], false);
      return folder === null ? null : work(join(folder, name), folder, name);
    });
  };
  const findTop = () => withOurErrors(() => findFolder(root, folders, false));
  const destination: Destination = {
    traits,
    probe: async () => traits,
    createFile: (options, journal) =>
      withOurErrors(() => createWriter(root, folders, options, syncBytes, journal)),
    async abortUpload(upload) {
      await withOurErrors(() => removeHidden(root, folders, upload));
    },
    async *listUploads(prefix) {
      const folder = await findTop();
      if (folder !== null) yield* listUploads(folder, prefix);
    },
    async commitManifest(key, body, expected, { lease } = {}) {
      const { folders: inner, name } = splitKey(key);
      return withOurErrors(async () => {
        const folder = await findFolder(root, [...folders, ...inner], true);
        return commitManifest(folder ?? root, name, body, expected, lease);
      });
    },
    readFile: async (key, options = {}) => at(key, (path) => readPath(path, key, options)),
    statFile: async (key) =>
      at(key, async (path, folder) => {
        const stats = await lstat(path).catch(ignore('ENOENT'));
        if (!stats?.isFile()) return null;
        const etag = await fileTag(path);
        const { size: bytes, mtimeMs: modifiedAt } = stats;
        return { bytes, etag, modifiedAt, ...(await readOwner(folder, etag)) };
      }),
    async *listFiles(prefix, _signal, after = '') {
      const folder = await findTop();
      if (folder !== null) yield* listFiles(folder, prefix, after);
    },
    async deleteFiles(keys) {
      for (const key of keys) {
        await at(key, async (_path, folder, name) => {
          await removeFile(folder, name);
          await removeEmptyPartitions(folder);
        });
      }
    },
    test: () => {
      const marker = `${hiddenPrefix}test-${randomUUID()}`;
      return check([
        ['directory', () => findFolder(root, folders, true)],
        ['write', () => writeMarker(destination, marker)],
        ['delete', () => destination.deleteFiles([marker])],
      ]);
    },
    close: async () => {},
  };
  return destination;
}

/** @throws SluiceError `destination.invalid_answer` if the file is longer than it may be */
async function readPath(
  path: string,
  key: string,
  { signal, maxBytes }: ReadOptions,
): Promise<OpenObject | null> {
  const handle = await openForRead(path);
  if (handle === null) return null;
  try {
    const facts = await handle.stat({ bigint: true });
    const { size, mtimeMs } = facts;
    if (maxBytes !== undefined && size > maxBytes) {
      const detail = `${key} is longer than ${maxBytes / 1024 ** 2} MiB`;
      throw new SluiceError('destination.invalid_answer', detail);
    }
    const etag = tagOf(facts);
    const modifiedAt = Number(mtimeMs);
    const stream = handle.createReadStream(signal ? { signal } : {});
    return { body: read(stream), etag, modifiedAt };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function writeMarker(destination: Destination, key: string): Promise<void> {
  const options = { key, contentType: 'text/plain' };
  const writer = await destination.createFile(options, unrecorded);
  await writer.write(Buffer.from('Sluice tests this destination. It removes this file itself.\n'));
  await writer.complete();
}

async function check(
  runs: readonly (readonly [string, () => Promise<unknown>])[],
): Promise<readonly CheckStep[]> {
  const steps: CheckStep[] = [];
  for (const [step, run] of runs) {
    try {
      await withOurErrors(run);
      steps.push({ step, passed: true, error: null, warning: null });
    } catch (error) {
      const text = describeError(toSluiceError(error));
      return [...steps, { step, passed: false, error: text, warning: null }];
    }
  }
  return steps;
}

async function* read(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (error) {
    throw toDestinationError(error);
  }
}

interface Found {
  readonly key: string;
  readonly path: string;
  readonly entry: Dirent;
}

/** Files below `folder` whose key starts with `prefix` and is after another one, in the order of their keys' bytes. */
async function* listFiles(
  folder: string,
  prefix: string,
  after: string,
): AsyncGenerator<{ readonly key: string; readonly bytes: number }> {
  for await (const { key, path, entry } of walk(folder, '', prefix)) {
    if (entry.name.startsWith(hiddenPrefix) || !key.startsWith(prefix)) continue;
    if (compareKeys(key, after) <= 0) continue;
    const stats = await lstat(path).catch(ignore('ENOENT'));
    if (stats) yield { key, bytes: stats.size };
  }
}

/** Hidden files of uploads whose key starts with `prefix`; see `hiddenName`. */
async function* listUploads(folder: string, prefix: string): AsyncGenerator<UploadRef> {
  for await (const { key: hiddenKey, path, entry } of walk(folder, '', prefix)) {
    const [, uploadId, name] = /^\.sluice-([0-9a-f-]{36})-(.+)$/.exec(entry.name) ?? [];
    if (uploadId === undefined || name === undefined) continue;
    const key = `${hiddenKey.slice(0, -entry.name.length)}${name}`;
    const stats = await lstat(path).catch(ignore('ENOENT'));
    if (stats && key.startsWith(prefix)) yield { key, uploadId };
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

function overlaps(folder: string, prefix: string): boolean {
  return folder.startsWith(prefix) || prefix.startsWith(folder);
}
