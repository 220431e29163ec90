import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type {
  CompleteOptions,
  FileOptions,
  FileWriter,
  ManifestTag,
  UploadJournal,
  UploadRef,
} from '../destination.ts';
import { systemCode, toDestinationError, withOurErrors } from './errors.ts';
import { findFolder, hiddenPrefix, ignore, splitKey, syncFolder } from './folders.ts';
import { fileTag, forgetOwner, noteOwner, replaceFile } from './manifest.ts';

/** The hidden file that holds an upload, beside its key: `.sluice-<upload id>-<name>`. */
export function hiddenName(upload: UploadRef): string {
  if (!/^[0-9a-f-]{36}$/.test(upload.uploadId)) {
    throw new SluiceError('destination.upload_lost', 'not an upload of this destination');
  }
  return `${hiddenPrefix}${upload.uploadId}-${splitKey(upload.key).name}`;
}

type Made = Pick<FileOptions, 'key' | 'owner' | 'run'>;

export async function createWriter(
  root: string,
  folders: readonly string[],
  made: Made,
  syncBytes: number,
  journal: UploadJournal,
): Promise<FileWriter> {
  const { key } = made;
  const upload = { key, uploadId: randomUUID() };
  await journal.starting();
  const all = [...folders, ...splitKey(key).folders];
  const { folder, handle } = await withOurErrors(() => openHidden(root, all, hiddenName(upload)));
  const path = join(folder, hiddenName(upload));
  return new LocalFileWriter({ upload, made, folder, path, handle, syncBytes, journal });
}

const newFile = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/** Another run may remove the folder while it is empty: then it is made again. */
async function openHidden(
  root: string,
  folders: readonly string[],
  name: string,
  tries = 3,
): Promise<{ readonly folder: string; readonly handle: FileHandle }> {
  try {
    const folder = await findFolder(root, folders, true);
    if (folder !== null) return { folder, handle: await open(join(folder, name), newFile, 0o644) };
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
  if (tries > 1) return openHidden(root, folders, name, tries - 1);
  throw new SluiceError('destination.unavailable', 'the folder is removed again and again');
}

/** Removes the hidden file of an upload. @returns whether there was one */
export async function removeHidden(
  root: string,
  folders: readonly string[],
  upload: UploadRef,
): Promise<boolean> {
  const folder = await findFolder(root, [...folders, ...splitKey(upload.key).folders], false);
  return folder === null ? false : withOurErrors(() => removeFile(folder, hiddenName(upload)));
}

/** Removes a file, and the record of its owner. @returns whether there was one */
export async function removeFile(folder: string, name: string): Promise<boolean> {
  const path = join(folder, name);
  const tag = await fileTag(path);
  const stats = await lstat(path).catch(ignore('ENOENT'));
  await unlink(path).catch(ignore('ENOENT'));
  // A file that has just got its name has two until its hidden one is removed.
  if (stats?.nlink === 1) await forgetOwner(folder, tag);
  return stats !== undefined;
}

interface HiddenFile {
  readonly upload: UploadRef;
  readonly made: Made;
  readonly folder: string;
  readonly path: string;
  readonly handle: FileHandle;
  readonly syncBytes: number;
  readonly journal: UploadJournal;
}

/** A hidden file that is renamed to its key when it is whole. If the next attempt has removed it, the rename fails. */
class LocalFileWriter implements FileWriter {
  readonly upload: UploadRef;
  readonly #file: HiddenFile;
  #bytes = 0;
  #syncedBytes = 0;
  #syncs = 0;
  #failure: SluiceError | null = null;
  #isFlushed = false;
  #etag: ManifestTag = null;
  #state: 'open' | 'completed' | 'aborted' = 'open';

  constructor(file: HiddenFile) {
    this.upload = file.upload;
    this.#file = file;
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    if (this.#state !== 'open') throw new SluiceError('destination.unavailable', this.#state);
    try {
      await this.#append(bytes);
    } catch (error) {
      // Bytes are missing now: no more may be written.
      this.#failure = toDestinationError(error);
      throw this.#failure;
    }
  }

  async #append(bytes: Uint8Array): Promise<void> {
    await withOurErrors(async () => {
      let rest = bytes;
      while (rest.length > 0) {
        const { bytesWritten } = await this.#file.handle.write(rest, 0, rest.length, this.#bytes);
        this.#bytes += bytesWritten;
        rest = rest.subarray(bytesWritten);
      }
    });
    const unsynced = this.#bytes - this.#syncedBytes;
    if (unsynced < this.#file.syncBytes) return;
    await withOurErrors(() => this.#file.handle.datasync());
    this.#syncedBytes = this.#bytes;
    this.#syncs += 1;
    await this.#file.journal.sent(this.upload.key, this.#syncs, unsynced);
  }

  async flush(): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    if (this.#state !== 'open' || this.#isFlushed) return;
    await withOurErrors(() => this.#file.handle.sync());
    this.#isFlushed = true;
    // An interval may have more files than a process may have open.
    await withOurErrors(() => this.#file.handle.close());
  }

  async complete(options: CompleteOptions = {}): Promise<{ readonly etag: ManifestTag }> {
    if (this.#failure !== null) throw this.#failure;
    if (this.#state === 'aborted') throw new SluiceError('destination.unavailable', 'aborted');
    if (this.#state === 'open') {
      await this.flush();
      try {
        this.#etag = await this.#publish(options);
      } catch (error) {
        const lost = systemCode(error) === 'ENOENT';
        if (lost) throw new SluiceError('destination.upload_lost', undefined, error);
        throw toDestinationError(error);
      }
      this.#state = 'completed';
    }
    await withOurErrors(() => syncFolder(this.#file.folder));
    return { etag: this.#etag };
  }

  /** Renames the hidden file to its key. @returns its tag */
  async #publish({ replaces, lease }: CompleteOptions): Promise<ManifestTag> {
    const { folder, path, made } = this.#file;
    const { name } = splitKey(this.upload.key);
    await noteOwner(folder, await fileTag(path), made);
    if (replaces === undefined) {
      await rename(path, join(folder, name));
      return await fileTag(join(folder, name));
    }
    const tag = await replaceFile(folder, name, path, replaces, lease);
    await forgetOwner(folder, replaces);
    return tag;
  }

  async abort(): Promise<void> {
    if (this.#state !== 'open') return;
    await withOurErrors(async () => {
      await removeFile(this.#file.folder, hiddenName(this.upload));
      await this.#file.handle.close();
    });
    this.#state = 'aborted';
  }
}
