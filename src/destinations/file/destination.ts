import { lstat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError, SluiceError, toSluiceError } from '../../domain/errors.ts';
import type {
  CheckStep,
  Destination,
  FileOptions,
  FileWriter,
  ManifestTag,
  OpenUpload,
  ReadOptions,
  StoreTraits,
  UploadJournal,
  UploadProgress,
  UploadRef,
} from '../destination.ts';
import { toDestinationError, withOurErrors } from './errors.ts';
import { findFolder, ignore, openForRead, splitKey } from './folders.ts';
import { listFiles, listUploads } from './listing.ts';
import { commitManifest, fileTag } from './manifest.ts';
import { createWriter, removeHidden, resumeWriter } from './writer.ts';

/** A local file system is known: it needs no probe. */
const traits: StoreTraits = {
  ifNoneMatch: true,
  ifMatch: 'quoted',
  completeIfNoneMatch: true,
  completeIfMatch: true,
  checksums: false,
  sealsUploads: true,
};

export class FileDestination implements Destination {
  readonly traits = traits;
  readonly #root: string;
  readonly #folders: readonly string[];
  readonly #syncBytes: number;

  /** @param syncBytes bytes between two syncs to the disk; the journal is notified of each */
  constructor(root: string, folders: readonly string[], syncBytes: number) {
    this.#root = root;
    this.#folders = folders;
    this.#syncBytes = syncBytes;
  }

  createFile(options: FileOptions, journal: UploadJournal): Promise<FileWriter> {
    return withOurErrors(() =>
      createWriter(this.#root, this.#folders, options.key, this.#syncBytes, journal),
    );
  }

  resumeFile(
    _options: FileOptions,
    progress: UploadProgress,
    journal: UploadJournal,
  ): Promise<FileWriter> {
    return withOurErrors(() =>
      resumeWriter(this.#root, this.#folders, progress, this.#syncBytes, journal),
    );
  }

  async probe(): Promise<StoreTraits> {
    return traits;
  }

  async abortUpload(upload: UploadRef): Promise<void> {
    await withOurErrors(() => removeHidden(this.#root, this.#folders, upload));
  }

  async *listUploads(prefix: string): AsyncGenerator<OpenUpload> {
    const folder = await withOurErrors(() => findFolder(this.#root, this.#folders, false));
    if (folder !== null) yield* listUploads(folder, prefix);
  }

  async commitManifest(
    key: string,
    body: Uint8Array,
    expected: ManifestTag,
  ): Promise<{ readonly etag: ManifestTag }> {
    const { folders, name } = splitKey(key);
    return await withOurErrors(async () => {
      const folder = await findFolder(this.#root, [...this.#folders, ...folders], true);
      return await commitManifest(folder ?? this.#root, name, body, expected);
    });
  }

  async readFile(key: string, { signal, maxBytes }: ReadOptions = {}) {
    const { folders, name } = splitKey(key);
    return await withOurErrors(async () => {
      const folder = await findFolder(this.#root, [...this.#folders, ...folders], false);
      if (folder === null) return null;
      const path = join(folder, name);
      const handle = await openForRead(path);
      if (handle === null) return null;
      if (maxBytes !== undefined && (await handle.stat()).size > maxBytes) {
        await handle.close();
        const detail = `${key} is longer than ${maxBytes / 1024 ** 2} MiB`;
        throw new SluiceError('destination.invalid_answer', detail);
      }
      const etag = await fileTag(path);
      const stream = handle.createReadStream(signal ? { signal } : {});
      return { body: read(stream), etag };
    });
  }

  async statFile(key: string) {
    const { folders, name } = splitKey(key);
    return await withOurErrors(async () => {
      const folder = await findFolder(this.#root, [...this.#folders, ...folders], false);
      if (folder === null) return null;
      const path = join(folder, name);
      const found = await lstat(path).catch(ignore('ENOENT'));
      return found?.isFile() ? { bytes: found.size, etag: await fileTag(path) } : null;
    });
  }

  async *listFiles(prefix: string) {
    const folder = await withOurErrors(() => findFolder(this.#root, this.#folders, false));
    if (folder !== null) yield* listFiles(folder, prefix);
  }

  async deleteFiles(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const { folders, name } = splitKey(key);
      await withOurErrors(async () => {
        const folder = await findFolder(this.#root, [...this.#folders, ...folders], false);
        if (folder !== null) await unlink(join(folder, name)).catch(ignore('ENOENT'));
      });
    }
  }

  async test(_signal: AbortSignal): Promise<readonly CheckStep[]> {
    const steps: CheckStep[] = [];
    const key = 'sluice-test';
    const marker = Buffer.from('Sluice tests this destination. It removes this file itself.\n');
    const runs: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['directory', () => findFolder(this.#root, this.#folders, true)],
      [
        'write',
        async () => {
          const options = { key, contentType: 'text/plain', contentEncoding: null };
          const writer = await this.createFile(options, unrecorded);
          await writer.write(marker);
          await writer.complete();
        },
      ],
      ['delete', () => this.deleteFiles([key])],
    ];
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

  async close(): Promise<void> {}
}

async function* read(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (error) {
    throw toDestinationError(error);
  }
}

/** The marker's upload ends within the check, so no record is needed. */
const unrecorded: UploadJournal = {
  starting: async () => {},
  started: async () => {},
  progressed: async () => {},
  ended: async () => {},
};
