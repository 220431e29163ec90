import { randomUUID } from 'node:crypto';
import { defineDestination } from '../define-destination.ts';
import {
  allTraits,
  type Destination,
  type FileWriter,
  type UploadJournal,
  type UploadRef,
} from '../destination.ts';

export const noOpDefinition = defineDestination({
  type: 'NoOp',
  description: 'Reads, encodes and counts rows, but writes nothing.',
  properties: {},
  keepsFiles: false,
  buffersParts: false,
  validate: () => [],
  place: () => 'nowhere',
  open: openNoOpDestination,
});

/** Nothing is written, so nothing can be overwritten. */
function openNoOpDestination(): Destination {
  return {
    traits: allTraits,
    probe: async () => allTraits,
    async createFile({ key }, journal) {
      const upload = { key, uploadId: randomUUID() };
      await journal.started(upload, true);
      return noOpWriter(upload, journal);
    },
    resumeFile: async (_options, { key, uploadId }, journal) =>
      noOpWriter({ key, uploadId }, journal),
    abortUpload: async () => {},
    async *listUploads() {},
    commitManifest: async () => ({ etag: null }),
    readFile: async () => null,
    statFile: async () => null,
    async *listFiles() {},
    deleteFiles: async () => {},
    test: async () => [
      { step: 'write', passed: true, error: null, warning: 'Nothing is ever written.' },
    ],
    close: async () => {},
  };
}

function noOpWriter(upload: UploadRef, journal: UploadJournal): FileWriter {
  return {
    upload,
    write: async () => {},
    flush: async () => {},
    async complete() {
      await journal.ended(upload);
      return { etag: null };
    },
    abort: () => journal.ended(upload),
    suspend: async () => {},
  };
}
