import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import {
  codeOf,
  options,
  readAll,
  recordingJournal,
  uploadOf,
} from '../conformance/destination-suite.ts';
import { type OpenedStore, openStore, partBytes } from '../support/s3-destination.ts';
import { until } from '../support/until.ts';

let store: OpenedStore;
afterEach(() => store?.close());

const complete = { operation: 'CompleteMultipartUpload' } as const;
const internal = { status: 500, code: 'InternalError' };
const forever = Number.POSITIVE_INFINITY;
const { journal } = recordingJournal();
const create = () => store.destination.createFile(options('a'), journal);
const content = () => readAll(store.destination, 'a');

describe('a store that takes parts of a completed upload', () => {
  const quirks = { lateParts: 'take', abortOfCompleted: 'no-such-key' } as const;

  it('is no harm to an abort of the completed upload', async () => {
    store = await openStore({ quirks });
    const writer = await create();
    await writer.write(Buffer.from('bytes'));
    await writer.complete();
    await store.destination.abortUpload(uploadOf(writer));
    expect(String(await content())).toBe('bytes');
  });
});

describe('a store that names no tag when it completes', () => {
  const quirks = { completionTag: 'empty' } as const;

  it('is asked for it, and completes once', async () => {
    store = await openStore({ quirks });
    const writer = await create();
    await writer.write(Buffer.from('bytes'));
    const { etag } = await writer.complete();
    expect(etag).toBe(store.server.objects('exports')[0]?.etag);
    expect(store.sent('CompleteMultipartUpload')).toBe(1);
  });

  it('gives the tag as the store shows it, though a repeat names it without quotes', async () => {
    store = await openStore({ quirks });
    store.server.faults.add({ match: complete, effect: { loseResponse: true } });
    const writer = await create();
    await writer.write(Buffer.from('bytes'));
    const { etag } = await writer.complete();
    expect(etag).toBe((await store.destination.statFile('a'))?.etag);
    expect(etag).toMatch(/^"/);
    expect(store.sent('CompleteMultipartUpload')).toBe(2);
  });

  it('is believed if the credentials are good for writing only', async () => {
    store = await openStore({ quirks });
    const denied = { status: 403, code: 'AccessDenied' };
    for (const operation of ['HeadObject', 'GetObject'] as const) {
      store.server.faults.add({ match: { operation }, times: forever, effect: denied });
    }
    const writer = await create();
    await writer.write(Buffer.from('bytes'));
    expect((await writer.complete()).etag).toBe(store.server.objects('exports')[0]?.etag);
  });
});

describe('a store that answers 500 to the completion of a lost upload', () => {
  const quirks = { unknownUploads: 'fail', completionTag: 'empty' } as const;

  async function writtenFile() {
    store = await openStore({ quirks });
    const writer = await create();
    await writer.write(randomBytes(partBytes));
    await until(() => store.server.uploads('exports')[0]?.parts.length === 1);
    return writer;
  }

  it('is asked for the parts, and the upload is lost', async () => {
    const writer = await writtenFile();
    await store.destination.abortUpload(uploadOf(writer));
    expect(await codeOf(writer.complete())).toBe('destination.upload_lost');
    expect(await content()).toBeNull();
  });

  it('does not take another object for its own', async () => {
    const writer = await writtenFile();
    await store.destination.abortUpload(uploadOf(writer));
    await store.destination.commitManifest('a', Buffer.from('another'), null);
    expect(await codeOf(writer.complete())).toBe('destination.upload_lost');
    expect(String(await content())).toBe('another');
  });

  it('has completed it if the object has the mark of the upload', async () => {
    const writer = await writtenFile();
    store.server.faults.add({ match: complete, effect: { loseResponse: true } });
    store.server.faults.add({ match: complete, times: forever, effect: internal });
    const { etag } = await writer.complete();
    expect(etag).toBe(store.server.objects('exports')[0]?.etag);
  });

  it('is unavailable, and the upload is kept, while it still knows the upload', async () => {
    const writer = await writtenFile();
    store.server.faults.add({ match: complete, times: forever, effect: internal });
    expect(await codeOf(writer.complete())).toBe('destination.unavailable');
    store.server.faults.clear();
    await writer.complete();
    expect(await content()).toHaveLength(partBytes);
  });
});

it('a put that lost its race and was answered 500 is a conflict when it is sent again', async () => {
  store = await openStore();
  const { destination, server } = store;
  const { etag } = await destination.commitManifest('m.json', Buffer.from('1'), null);
  await destination.commitManifest('m.json', Buffer.from('2'), etag);
  const effect = { status: 500, code: 'UnknownError' };
  server.faults.add({ match: { operation: 'PutObject' }, effect });
  const late = destination.commitManifest('m.json', Buffer.from('late'), etag);
  expect(await codeOf(late)).toBe('destination.conflict');
  expect(String(await readAll(destination, 'm.json'))).toBe('2');
});
