import { randomUUID } from 'node:crypto';
import type {
  CheckStep,
  Destination,
  FileOptions,
  FileWriter,
  ManifestTag,
  OpenUpload,
  StoreTraits,
  UploadJournal,
  UploadProgress,
  UploadRef,
} from '../destination.ts';

/** Nothing is written, so nothing can be overwritten. */
const traits: StoreTraits = {
  ifNoneMatch: true,
  ifMatch: 'quoted',
  completeIfNoneMatch: true,
  completeIfMatch: true,
  checksums: true,
  sealsUploads: true,
};

export class NoOpDestination implements Destination {
  readonly traits = traits;

  async probe(): Promise<StoreTraits> {
    return traits;
  }

  async createFile({ key }: FileOptions, journal: UploadJournal): Promise<FileWriter> {
    const upload = { key, uploadId: randomUUID() };
    await journal.started(upload, true);
    return new NoOpWriter(upload, journal);
  }

  async resumeFile(
    _options: FileOptions,
    { key, uploadId }: UploadProgress,
    journal: UploadJournal,
  ): Promise<FileWriter> {
    return new NoOpWriter({ key, uploadId }, journal);
  }

  async abortUpload(): Promise<void> {}

  async *listUploads(): AsyncGenerator<OpenUpload> {}

  async commitManifest(): Promise<{ readonly etag: ManifestTag }> {
    return { etag: null };
  }

  async readFile(): Promise<null> {
    return null;
  }

  async statFile(): Promise<null> {
    return null;
  }

  async *listFiles(): AsyncGenerator<{ readonly key: string; readonly bytes: number }> {}

  async deleteFiles(): Promise<void> {}

  async test(): Promise<readonly CheckStep[]> {
    return [{ step: 'write', passed: true, error: null, warning: 'Nothing is ever written.' }];
  }

  async close(): Promise<void> {}
}

class NoOpWriter implements FileWriter {
  readonly upload: UploadRef;
  readonly #journal: UploadJournal;

  constructor(upload: UploadRef, journal: UploadJournal) {
    this.upload = upload;
    this.#journal = journal;
  }

  async write(): Promise<void> {}

  async flush(): Promise<void> {}

  async complete(): Promise<{ readonly etag: null }> {
    await this.#journal.ended(this.upload);
    return { etag: null };
  }

  async abort(): Promise<void> {
    await this.#journal.ended(this.upload);
  }

  async suspend(): Promise<void> {}
}
