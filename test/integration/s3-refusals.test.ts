import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import {
  allTraits,
  type Destination,
  type StoreTraits,
} from '../../src/rows/destinations/destination.ts';
import { permissions } from '../../src/rows/destinations/s3/refusals.ts';
import { describeError } from '../../src/foundation/domain/describe-error.ts';
import {
  codeOf,
  errorOf,
  keysUnder,
  options,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import {
  denied,
  type OpenedStore,
  openStore,
  partBytes,
  serve,
  start,
  twoParts,
  upload,
} from '../support/s3-destination.ts';
import type { Fault, ForeignAnswer } from '../support/s3-server/faults.ts';
import type { OperationName } from '../support/s3-server/operations.ts';
import { firstByDay } from '../support/nightly.ts';
import type { S3Quirks } from '../support/s3-server/quirks.ts';

let store: OpenedStore;
afterEach(() => store?.close());

const { journal } = recordingJournal();
const soon = () => AbortSignal.timeout(30_000);
const forever = { probability: 1 } as const;

const write = (destination: Destination, key: string, bytes: Uint8Array) =>
  upload({ destination }, bytes, key);

/** A call of the destination for each operation of the store. */
const calls: Readonly<Partial<Record<OperationName, (at: Destination) => Promise<unknown>>>> = {
  PutObject: (at) => at.commitManifest('m.json', Buffer.from('{}'), null),
  CreateMultipartUpload: (at) => at.createFile(options('a'), journal),
  UploadPart: (at) => write(at, 'a', twoParts),
  CompleteMultipartUpload: (at) => write(at, 'a', twoParts),
  AbortMultipartUpload: (at) => at.abortUpload({ key: 'a', uploadId: 'x.1' }),
  GetObject: (at) => at.readFile('a'),
  DeleteObject: (at) => at.deleteFiles(['a']),
  ListObjectsV2: (at) => keysUnder(at, ''),
  ListMultipartUploads: async (at) => {
    for await (const _ of at.listUploads(''));
  },
};

type Refusal = Omit<Extract<Fault['effect'], { status: number }>, never>;

const no = (status: number, code: string, more: Partial<Refusal> = {}): Refusal => ({
  ...{ status, code },
  ...more,
});
const location = 'https://acme.s3.eu-west-1.example.com/';
const elsewhere = { headers: { location, 'x-amz-bucket-region': 'eu-west-1' } };
const malformed = (more: Partial<Refusal>) => no(400, 'AuthorizationHeaderMalformed', more);
const inWords = 'Please use virtual hosted style to access.';

/** What a store answers, and what the owner of the export reads. */
const answers: readonly (readonly [string, Refusal, string, RegExp])[] = [
  [
    'a redirect with a region',
    no(301, 'PermanentRedirect', elsewhere),
    'wrong_region',
    /in eu-west-1, at https:\/\/acme\.s3\.eu-west-1\.example\.com\/\. Set region/,
  ],
  [
    'a redirect with an address',
    no(307, 'TemporaryRedirect', { details: { Endpoint: 'acme.s3.eu-west-1.example.com' } }),
    'wrong_region',
    /redirects to acme\.s3\.eu-west-1.*endpoint_url/,
  ],
  [
    'a redirect that names nothing',
    no(301, 'PermanentRedirect'),
    'wrong_region',
    /Set region and endpoint_url/,
  ],
  [
    'another region in words',
    malformed({ message: 'The region is wrong.' }),
    'wrong_region',
    /Set region to/,
  ],
  [
    'another region in the words of others',
    malformed({ message: 'The credential scope is not valid.' }),
    'wrong_region',
    /Set region to/,
  ],
  [
    'path style at OSS',
    no(403, 'SecondLevelDomainForbidden', { message: inWords }),
    'invalid_config',
    /use_virtual_style_addressing/,
  ],
  [
    'path style at COS',
    no(403, 'PathStyleDomainForbidden'),
    'invalid_config',
    /use_virtual_style_addressing/,
  ],
  ['a full bucket', no(403, 'QuotaExceeded'), 'access_denied', /quota/],
  [
    'a long text',
    no(400, 'Odd', { message: '\u6587'.repeat(1_024) }),
    'invalid_config',
    /Odd, HTTP 400: \u6587+/,
  ],
];

describe('a refusal', () => {
  it.each(Object.entries(calls))('of %s names its permission', async (operation, call) => {
    store = await openStore();
    const match = { operation: operation as OperationName };
    store.server.faults.add({ match, ...forever, effect: denied });
    const error = await errorOf(call(store.destination));
    expect(error.code).toBe('destination.access_denied');
    expect(error.detail).toContain(permissions[operation]?.[0]);
    if (!/^(?:Put|Create|Upload|Complete)/.test(operation)) {
      expect(describeError(error)).not.toMatch(/PutObject|permission to write/);
    }
  });

  it('names the action that the store names', async () => {
    store = await openStore({}, {}, { object_tags: ['team=data'] });
    const message = 'User u is not authorized to perform: s3:PutObjectTagging on resource r';
    store.fault('PutObject', { ...denied, message }, forever);
    const { detail } = await errorOf(calls.PutObject?.(store.destination) ?? Promise.resolve());
    expect(detail).toContain('s3:PutObjectTagging was refused');
  });

  describe.each(answers)('with %s', (_, effect, code, detail) => {
    it.each(firstByDay(3, Object.entries(calls)))('is final for %s', async (operation, call) => {
      store = await openStore();
      const match = { operation: operation as OperationName };
      store.server.faults.add({ match, ...forever, effect });
      const error = await errorOf(call(store.destination));
      expect(error.code).toBe(`destination.${code}`);
      expect(error.spec.retryable).toBe(false);
      expect(describeError(error)).toMatch(detail);
      expect(describeError(error)).not.toContain('No action needed');
      expect(Buffer.from(error.detail ?? '').toString()).toBe(error.detail);
    });
  });

  it.each([
    [308, { location: 'https://store.example.com/' }, 'redirects to https://store.example.com/'],
    [307, { 'x-amz-bucket-region': 'eu-west-1' }, 'in eu-west-1. Set region to it'],
    [301, {}, 'Set region and endpoint_url'],
    [303, {}, 'Set region and endpoint_url'],
  ])(
    'by a redirect (%i) without a document is final, and says what it can',
    async (status, headers, says) => {
      const foreignAnswer: ForeignAnswer = { status, body: '<html>', headers };
      store = await openStore();
      store.server.faults.add({ match: {}, ...forever, effect: { foreignAnswer } });
      for (const call of Object.values(calls)) {
        const error = await errorOf(call(store.destination));
        expect(error.code).toBe('destination.wrong_region');
        expect(error.detail).toContain(says);
      }
    },
  );
});

describe('the parts of a file', () => {
  /** Far more than its first size would let it have. */
  const long = randomBytes(9 * partBytes);
  const limits = { partBytes, maxParts: 10 };

  it('are all of one size at a store that demands it, from the second attempt on', async () => {
    store = await openStore({ quirks: { parts: 'equal' } }, limits);
    await store.destination.probe(soon());
    const error = await errorOf(write(store.destination, 'a', long));
    expect([error.code, error.spec.retryable]).toEqual(['destination.invalid_parts', true]);
    expect(describeError(error)).toContain('max_file_size_mb');
    const { traits } = store.destination;
    expect(traits?.parts.equal).toBe(true);
    // In another process, as it were.
    await write(store.open(traits), 'a', long);
    expect((await readAll(store.destination, 'a'))?.equals(long)).toBe(true);
  });

  it('are of one size from the beginning, if the file keeps to what is expected', async () => {
    store = await openStore({ quirks: { parts: 'equal' } }, { partBytes, maxParts: 100 });
    await write(store.destination, 'a', long);
    expect(store.server.objects('exports')[0]?.parts).toBe(9);
  });

  it('are fewer and larger at a store that allows few, from the second attempt on', async () => {
    store = await openStore({ maxParts: 4 }, { partBytes, maxParts: 10_000 });
    await store.destination.probe(soon());
    const error = await errorOf(write(store.destination, 'a', long));
    expect(error.code).toBe('destination.invalid_parts');
    const { traits } = store.destination;
    expect(traits?.parts.most).toBe(4);
    await write(store.open(traits), 'a', long);
    expect((await readAll(store.destination, 'a'))?.equals(long)).toBe(true);
  });
});

describe('an odd answer to a trial', () => {
  const odd: readonly (readonly [string, Fault['effect']])[] = [
    ['403', { status: 403, code: 'AccessDenied' }],
    ['404', { status: 404, code: 'NoSuchThing' }],
    ['405', { status: 405, code: 'MethodNotAllowed' }],
    ['500', { status: 500, code: 'InternalError' }],
    ['a page', { foreignAnswer: { status: 400, body: '<html>' } }],
  ];
  const lost: readonly (readonly [OperationName, number, Partial<StoreTraits>])[] = [
    ['PutObject', 2, { ifNoneMatch: false }],
    ['CompleteMultipartUpload', 2, { completeIfNoneMatch: false }],
  ];
  const cases = odd.flatMap(([name, effect]) =>
    lost.map((each) => [name, effect, ...each] as const),
  );

  it.each(cases)(
    '(%s) means that the store lacks it',
    async (_, effect, operation, nth, traits) => {
      store = await openStore({}, { requestRetry: { maxAttempts: 1, baseMs: 0, capMs: 0 } });
      store.server.faults.add({ match: { operation, nth }, effect });
      expect(await store.destination.probe(soon())).toEqual({ ...allTraits, ...traits });
      expect(store.server.objects('exports')).toEqual([]);
    },
  );

  it('fails the probe if the plain request is refused too', async () => {
    store = await openStore();
    store.fault('PutObject', denied, forever);
    expect(await codeOf(store.destination.probe(soon()))).toBe('destination.access_denied');
  });
});

it('a marker of the probe is below the prefix if the credentials allow that alone', async () => {
  store = await openStore({}, {}, { prefix: 'team/events/{year}' });
  const effect = denied;
  store.server.faults.add({ match: { key: /^team\/\.sluice-test-/ }, ...forever, effect });
  expect(await store.destination.probe(soon(), journal)).toEqual(allTraits);
  expect(store.server.objects('exports')).toEqual([]);
});

describe('an address that contains the bucket already', () => {
  it('is found by the test and by the first run, if its host does not show it', async () => {
    // A host of its own for the bucket: every path is a key.
    const port = await serve((request, response) => {
      const isRead = request.method === 'GET';
      response.writeHead(isRead ? 404 : 200, { etag: '"1"', 'content-type': 'application/xml' });
      response.end(isRead ? '<Error><Code>NoSuchKey</Code></Error>' : '');
    });
    const { destination } = await start({ config: { endpoint_url: `http://127.0.0.1:${port}` } });
    const error = await errorOf(destination.probe(soon()));
    expect(error.code).toBe('destination.invalid_config');
    expect(error.detail).toContain('endpoint_url');
    const steps = await destination.test(soon());
    expect(steps.at(-1)).toMatchObject({ step: 'address', passed: false });
    expect(steps.at(-1)?.error).toContain('endpoint_url');
  });
});

describe('a store without ListObjectsV2', () => {
  it.each([
    [501, 'NotImplemented'],
    [405, 'MethodNotAllowed'],
    [400, 'InvalidArgument'],
  ])('(HTTP %i %s) passes the test with a warning', async (status, code) => {
    store = await openStore();
    const match = { operation: 'ListObjectsV2' } as const;
    store.server.faults.add({ match, ...forever, effect: { status, code } });
    const steps = await store.destination.test(soon());
    expect(steps.filter(({ passed }) => !passed)).toEqual([]);
    expect(steps.find(({ step }) => step === 'bucket')?.warning).toContain('ListObjectsV2');
  });
});

describe('what a company requires', () => {
  const asked = {
    acl: 'bucket-owner-full-control',
    expected_bucket_owner: '123456789012',
    storage_class: 'STANDARD_IA',
    object_tags: ['team=data & more', 'cost-center=42'],
  };
  const quirks: S3Quirks = {
    owner: '123456789012',
    requires: {
      'x-amz-acl': 'bucket-owner-full-control',
      'x-amz-tagging': 'cost-center=42&team=data%20%26%20more',
    },
  };

  async function doAll(destination: Destination): Promise<void> {
    await destination.probe(soon());
    await destination.commitManifest('m.json', Buffer.from('{}'), null);
    await write(destination, 'a', twoParts);
    const small = await destination.createFile({ ...options('b'), isNewKey: true }, journal);
    await small.complete();
    expect(await keysUnder(destination, '')).toEqual(['a', 'b', 'm.json']);
    expect((await destination.test(soon())).filter(({ passed }) => !passed)).toEqual([]);
    await destination.deleteFiles(['a', 'b', 'm.json']);
  }

  it('is sent with each object, and the owner of the bucket with each request', async () => {
    store = await openStore({ quirks }, {}, asked);
    await doAll(store.destination);
  });

  it.each(Object.keys(asked).filter((name) => name !== 'storage_class'))(
    'is missed by a store that wants %s',
    async (name) => {
      store = await openStore({ quirks }, {}, { ...asked, [name]: null });
      expect(await codeOf(doAll(store.destination))).toBe('destination.access_denied');
    },
  );

  it('lets small files be put if it is wanted of parts too, and says so of larger ones', async () => {
    store = await openStore({ quirks: { ...quirks, requiresOfParts: true } }, {}, asked);
    const { destination } = store;
    expect(await destination.probe(soon())).toMatchObject({ ifNoneMatch: true });
    const small = await destination.createFile({ ...options('b'), isNewKey: true }, journal);
    await small.write(Buffer.from('small'));
    await small.complete();
    const error = await errorOf(write(destination, 'a', twoParts));
    expect(describeError(error)).toMatch(/access_denied.*condition of the bucket policy.*Null/);
    const steps = await destination.test(soon());
    expect(steps.filter(({ passed }) => !passed)).toEqual([]);
    const tried = steps.find(({ step }) => step === 'write');
    expect(tried?.warning).toMatch(/Only files of less than .*condition of the bucket policy/);
    await destination.deleteFiles(['b']);
    expect(store.server.objects('exports')).toEqual([]);
  });

  it('gives files a class, and no manifest', async () => {
    const requires = { 'x-amz-storage-class': 'GLACIER_IR' };
    store = await openStore({ quirks: { requires } }, {}, { storage_class: 'GLACIER_IR' });
    await write(store.open(allTraits), 'a', twoParts);
    const put = store.destination.commitManifest('m.json', Buffer.from('{}'), null);
    expect(await codeOf(put)).toBe('destination.access_denied');
  });
});
