import { randomUUID } from 'node:crypto';
import { defineDestination } from '../define-destination.ts';
import { allTraits, type Destination, type FileWriter, type UploadRef } from '../destination.ts';

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
    // No upload is noted: there is nothing to end.
    createFile: async ({ key }) => noOpWriter({ key, uploadId: randomUUID() }),
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

function noOpWriter(upload: UploadRef): FileWriter {
  return {
    upload,
    write: async () => {},
    flush: async () => {},
    complete: async () => ({ etag: null }),
    abort: async () => {},
  };
}
