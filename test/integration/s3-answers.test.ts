import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import {
  codeOf,
  errorOf,
  keysUnder,
  options,
  readAll,
  recordingJournal,
  uploadsUnder,
} from '../conformance/destination-suite.ts';
import {
  beginFile,
  type OpenedStore,
  openStore,
  partBytes,
  upload,
} from '../support/s3-destination.ts';
import type { FaultEffect } from '../support/s3-server/faults.ts';
import { until } from '../support/until.ts';

let store: OpenedStore;
afterEach(() => store?.close());

const forever = { probability: 1 } as const;
const xml = (body: string, status = 200): FaultEffect => ({
  foreignAnswer: { status, body, contentType: 'application/xml' },
});
const page = '<html><body>Forbidden</body></html>';

/** In place of an answer to a GET. */
interface Unread {
  readonly effect: FaultEffect;
  readonly detail: RegExp;
  /** It is not the store that answers: if it comes again and again, it is final. */
  readonly code?: 'destination.not_a_store';
}

const notTheStore = 'destination.not_a_store';

const unread: Record<string, Unread> = {
  'cut off in its body': {
    effect: { cutBodyAfterBytes: 60 },
    detail: /^HTTP 404 with a body that was cut off after 60 bytes$/,
  },
  'cut off after its headers': {
    effect: { cutBodyAfterBytes: 0 },
    detail: /^HTTP 404 with a body that was cut off after 0 bytes$/,
  },
  'a chunked 404 without its end': {
    effect: { foreignAnswer: { status: 404, body: '<Error><Code>NoSuchBucket', unended: true } },
    detail: /^HTTP 404 with a body that was cut off after 25 bytes$/,
  },
  'a whole document, chunked, without its end': {
    effect: { foreignAnswer: { status: 403, body: '<Error></Error>', unended: true } },
    detail: /^HTTP 403 with a body that was cut off/,
  },
  'a page of a proxy': {
    effect: { foreignAnswer: { status: 403, body: page } },
    detail: /^HTTP 403 with a page of HTML\. Set endpoint_url/,
    code: notTheStore,
  },
  'a 501 of a proxy': {
    effect: { foreignAnswer: { status: 501, body: page } },
    detail: /^HTTP 501 with a body/,
  },
  'a page of endless length': {
    effect: { foreignAnswer: { status: 400, body: 'x'.repeat(1024 ** 2 + 1) } },
    detail: /^HTTP 400 with a page of HTML\. Set endpoint_url/,
    code: notTheStore,
  },
};

describe.each(Object.entries(unread))('an answer that is %s', (_, given) => {
  const { effect, detail, code = 'destination.unavailable' } = given;

  it('is requested again', async () => {
    store = await openStore();
    store.fault('GetObject', effect, { times: 2 });
    expect(await store.destination.readFile('missing_manifest.json')).toBeNull();
    expect(store.sent('GetObject')).toBe(3);
  });

  it('is described, if it comes again and again', async () => {
    // A slow machine must not use up a try by a connection that comes late.
    store = await openStore({}, { connectTimeoutMs: 60_000 });
    store.fault('CreateMultipartUpload', effect, forever);
    const { journal } = recordingJournal();
    const error = await errorOf(store.destination.createFile(options('a'), journal));
    expect(error.code).toBe(code);
    // Creating does not fail by itself, so there is no body to cut but the answer's own.
    if (!('cutBodyAfterBytes' in effect)) expect(error.detail).toMatch(detail);
    expect(store.sent('CreateMultipartUpload')).toBe(5);
  });

  it('is named in the error of a read', async () => {
    store = await openStore();
    store.fault('GetObject', effect, forever);
    store.fault('ListObjectsV2', { status: 503, code: 'SlowDown' }, forever);
    const error = await errorOf(store.destination.readFile('missing_manifest.json'));
    expect(error).toMatchObject({ code });
    expect(error.detail).toMatch(detail);
  });
});

it('does not take a proxy’s page for a manifest', async () => {
  store = await openStore();
  const effect = { foreignAnswer: { status: 200, body: page } };
  store.fault('GetObject', effect);
  expect(await store.destination.readFile('m.json')).toBeNull();
  store.fault('GetObject', effect, forever);
  expect(await codeOf(store.destination.readFile('m.json'))).toBe(notTheStore);
});

describe('a store that gives a 404 no body', () => {
  const quirks = { missingObject: 'empty' } as const;

  it('is believed if it lists no such key', async () => {
    store = await openStore({ quirks });
    expect(await store.destination.readFile('missing_manifest.json')).toBeNull();
    await store.destination.deleteFiles(['missing']);
    expect((await store.destination.probe(AbortSignal.timeout(30_000))).ifNoneMatch).toBe(true);
  });

  it('is not believed if it lists the key', async () => {
    store = await openStore();
    await store.destination.commitManifest('m.json', Buffer.from('{}'), null);
    const effect = { foreignAnswer: { status: 404, body: '' } };
    store.fault('GetObject', effect, forever);
    expect(await codeOf(store.destination.readFile('m.json'))).toBe('destination.unavailable');
  });

  it('is not believed if the list is a page of a proxy', async () => {
    store = await openStore({ quirks });
    const effect = { foreignAnswer: { status: 200, body: '<html><body>ok</body></html>' } };
    store.fault('ListObjectsV2', effect, forever);
    expect(await codeOf(store.destination.readFile('m.json'))).toBe('destination.unavailable');
  });
});

describe('an error in the form of STS', () => {
  const document = (code: string) =>
    `<ErrorResponse><Error><Code>${code}</Code><Message>m</Message></Error></ErrorResponse>`;
  const answered = (status: number, code: string) => xml(document(code), status);

  it('is read as one of S3', async () => {
    store = await openStore();
    store.fault('GetObject', answered(404, 'NoSuchKey'));
    expect(await store.destination.readFile('m.json')).toBeNull();
    store.fault('GetObject', answered(403, 'InvalidAccessKeyId'));
    expect(await codeOf(store.destination.readFile('m'))).toBe('destination.invalid_credentials');
  });

  it('is no success, although its status is one', async () => {
    store = await openStore();
    store.fault('DeleteObject', answered(200, 'InternalError'), forever);
    expect(await codeOf(store.destination.deleteFiles(['a']))).toBe('destination.unavailable');
  });
});

it('a list whose keys are encoded, although that was not asked for, has the keys as they are', async () => {
  store = await openStore();
  const key = 'p/ä+b%20 c';
  const encoded = 'p/%C3%A4%2Bb%2520+c';
  const body = `<ListBucketResult><Prefix>p/</Prefix><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>
    <Contents><Key>${encoded}</Key><Size>3</Size></Contents></ListBucketResult>`;
  store.fault('ListObjectsV2', xml(body));
  expect(await keysUnder(store.destination, 'p/')).toEqual([key]);
  const uploads = `<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>
    <Upload><Key>${encoded}</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>`;
  store.fault('ListMultipartUploads', xml(uploads));
  expect(await uploadsUnder(store.destination, 'p/')).toEqual([key]);
});

describe('a refusal of a HEAD, which has no body', () => {
  // Two parts: with one, the tag may prove the object.
  const complete = () => upload(store, randomBytes(partBytes + 1000), 'a');

  it('is confirmed by a GET, whose answer is the one that counts', async () => {
    store = await openStore();
    store.fault('HeadObject', { status: 404, code: 'NoSuchKey' }, forever);
    // After completing the object is looked at: the GET finds it, and its size in the range.
    await complete();
    expect(store.sent('GetObject')).toBe(1);
    expect(store.server.objects('exports')).toHaveLength(1);
  });

  it('is confirmed by a whole GET, if the store does not say of how many bytes its one is', async () => {
    store = await openStore();
    store.fault('HeadObject', { status: 405, code: 'x' }, forever);
    const headers = { 'content-range': 'bytes 0-0/*' };
    store.server.faults.add({
      match: { operation: 'GetObject', nth: 1 },
      effect: { foreignAnswer: { status: 206, body: 'x', etag: otherTag, headers } },
    });
    await complete();
    expect(store.sent('GetObject')).toBe(2);
  });

  it('ends nothing for good if the GET is cut off', async () => {
    store = await openStore();
    store.fault('HeadObject', { status: 403, code: 'x' }, forever);
    store.fault('GetObject', { foreignAnswer: { status: 403, body: page } }, { times: 2 });
    await complete();
    expect(store.sent('GetObject')).toBe(3);
  });
});

describe('a completed object of one part', () => {
  const complete = () => upload(store, randomBytes(1000), 'a');

  it('is not looked at if its tag is the digest of the bytes that were sent', async () => {
    store = await openStore();
    const { etag } = await complete();
    expect(store.sent('HeadObject')).toBe(0);
    expect((await store.destination.statFile('a'))?.etag).toBe(etag);
  });

  it.each([
    ['its tag is no digest', {}, { encryption: 'aws:kms' }],
    ['the store names no tag', { quirks: { completionTag: 'empty' } }, {}],
  ] as const)('is looked at if %s', async (_, server, config) => {
    store = await openStore(server, {}, config);
    await complete();
    expect(store.sent('HeadObject')).toBe(1);
  });
});

it('finds, lists and deletes objects of any name that a prefix can have', async () => {
  store = await openStore();
  const { destination } = store;
  const keys = ['a b+c%2Fd~e*f', "ä/😀/(it's)!", 'x;y:z@&=$,?#', '[q]|^`"<>\\', ' ', '&amp;'];
  for (const key of keys) {
    await destination.commitManifest(`${key}/m`, Buffer.from(key), null);
    const writer = await beginFile(destination, Buffer.from(key), `${key}/f`);
    await writer.flush();
    expect(await uploadsUnder(destination, `${key}/`)).toEqual([`${key}/f`]);
    await writer.complete();
    const listed = await keysUnder(destination, `${key}/`);
    expect(listed).toEqual([`${key}/f`, `${key}/m`]);
    expect((await readAll(destination, `${key}/f`))?.toString()).toBe(key);
    await destination.deleteFiles(listed);
    expect(await destination.statFile(`${key}/m`)).toBe(null);
  }
  expect(store.server.objects('exports')).toEqual([]);
});

it.each(['', '<NextContinuationToken>t</NextContinuationToken>'])(
  'a list that goes on, with "%s" as the way to its next page, is never complete',
  async (next) => {
    store = await openStore();
    const body = `<ListBucketResult><Prefix>p/</Prefix><IsTruncated>true</IsTruncated>${next}</ListBucketResult>`;
    store.fault('ListObjectsV2', xml(body), forever);
    const list = async () => {
      for await (const { key } of store.destination.listFiles('p/')) expect(key).toBe('');
    };
    expect(await codeOf(list())).toBe('destination.invalid_answer');
  },
);

/** The answer to a request that the store never got. */
const instead = (body: string, etag?: string): FaultEffect => ({
  foreignAnswer: { status: 200, body, contentType: 'application/xml', ...(etag && { etag }) },
});
const otherTag = '"d41d8cd98f00b204e9800998ecf8427e"';

describe('an answer to another request', () => {
  it.each([
    ['of one part', 1000],
    ['of two parts', partBytes + 1],
  ])('does not make an upload %s count as completed', async (_, bytes) => {
    store = await openStore();
    const writer = await beginFile(store.destination, randomBytes(bytes));
    const other = `<CompleteMultipartUploadResult><Key>b</Key><ETag>${otherTag}</ETag></CompleteMultipartUploadResult>`;
    store.fault('CompleteMultipartUpload', instead(other, otherTag));
    expect((await errorOf(writer.complete())).code).toBe('destination.unavailable');
    const { etag } = await writer.complete();
    expect((await store.destination.statFile('a'))?.etag).toBe(etag);
  });

  it.each([
    ['without a tag', undefined, notTheStore],
    ['with the tag of other bytes', otherTag, 'destination.unavailable'],
  ])('%s does not make a manifest count as put', async (_, tag, code) => {
    store = await openStore();
    const put = () => store.destination.commitManifest('m', Buffer.from('{"a":1}\n'), null);
    store.server.faults.add({
      match: { operation: 'PutObject', key: /^m$/ },
      times: 10,
      effect: instead(page, tag),
    });
    expect((await errorOf(put())).code).toBe(code);
    store.server.faults.clear();
    const { etag } = await put();
    expect((await store.destination.statFile('m'))?.etag).toBe(etag);
  });
});

it('an upload whose answer comes after it was given up does not touch the one that was made in its place', async () => {
  store = await openStore({}, { stallTimeoutMs: 300 });
  store.fault('CreateMultipartUpload', { delayMs: 700, outlivesClient: true });
  const { journal } = recordingJournal();
  const writer = await store.destination.createFile(options('a'), journal);
  await until(() => store.server.uploads('exports').length === 2);
  await writer.write(Buffer.from('a'));
  await writer.complete();
  expect(String(await readAll(store.destination, 'a'))).toBe('a');
});
