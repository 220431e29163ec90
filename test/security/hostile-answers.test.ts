import { describe, expect, it, onTestFinished } from 'vitest';
import type { Destination, DestinationContext } from '../../src/rows/destinations/destination.ts';
import { readManifestAt } from '../../src/rows/pipeline/manifest.ts';
import type { Receipt } from '../../src/state/store/intervals/receipts.ts';
import { verifyFiles } from '../../src/service/verify/verify-files.ts';
import { errorOf, options, recordingJournal } from '../conformance/destination-suite.ts';
import {
  type Answer,
  destinationAt,
  drip,
  type HostileStore,
  sendEndlessly,
  sendXml,
  startHostileStore,
} from '../support/hostile-store.ts';
import { casesOf } from '../support/nightly.ts';
import { until } from '../support/until.ts';
import { inTest } from '../support/use-stage.ts';

const mebibyte = 1024 ** 2;
/** Of an answer that does not end by itself within a test. */
const endless = 200 * mebibyte;

async function open(
  answer: Answer,
  context: Partial<DestinationContext> = {},
): Promise<{ readonly store: HostileStore; readonly destination: Destination }> {
  const store = await inTest(startHostileStore(answer));
  const destination = destinationAt(store, context);
  onTestFinished(() => destination.close());
  return { store, destination };
}

async function drain(list: AsyncIterable<unknown> | Iterable<unknown>): Promise<void> {
  for await (const _ of list);
}

const upload = { key: 'a', uploadId: '00000000-0000-0000-0000-000000000000.id' };
const { journal } = recordingJournal();

/** Each request whose answer is XML, and the name of its operation. */
const xmlCalls: readonly (readonly [string, (destination: Destination) => Promise<unknown>])[] = [
  ['ListObjectsV2', (destination) => drain(destination.listFiles(''))],
  ['ListMultipartUploads', (destination) => drain(destination.listUploads(''))],
  ['CreateMultipartUpload', (destination) => destination.createFile(options('a'), journal)],
];

describe('an answer', () => {
  it.each(xmlCalls)('without an end to %s is cut off after 1 MiB', async (operation, call) => {
    const { store, destination } = await open((_, response) =>
      sendEndlessly(response, '<?xml version="1.0"?><Result>', endless),
    );
    const error = await errorOf(call(destination));
    expect(error.code).toBe('destination.invalid_answer');
    expect(error.message).toContain(`the answer to ${operation} is longer than 1 MiB`);
    await until(() => store.openConnections() === 0, { message: () => 'the connection ends' });
    expect(store.sentBytes()).toBeLessThan(endless / 4);
  });

  it('with an upload id of more than 1,024 bytes is refused', async () => {
    const { destination } = await open((_, response) => {
      const content = `<UploadId>${'ä'.repeat(513)}</UploadId>`;
      sendXml(response, 'InitiateMultipartUploadResult', content);
    });
    const error = await errorOf(destination.createFile(options('a'), journal));
    expect(error.code).toBe('destination.invalid_answer');
    expect(error.message).toContain('the upload id is longer than 1024 bytes');
  });

  it('with a tag of more than 1,024 bytes is refused', async () => {
    const { store, destination } = await open((_, response) => {
      response.writeHead(200, { etag: `"${'x'.repeat(1_025)}"` }).end();
    });
    const error = await errorOf(destination.statFile('a'));
    expect(error.code).toBe('destination.invalid_answer');
    expect(error.message).toContain('ETag');
    await until(() => store.openConnections() === 0, { message: () => 'the connection ends' });
  });

  it.each(['Code', 'Message'])(
    'whose error has 1,024 characters of several bytes in its %s is the destination’s fault, cut at a character',
    async (name) => {
      for (const shift of ['', 'a']) {
        const { destination } = await open((_, response) => {
          const words = `<Code>A</Code><${name}>${shift}${'😀'.repeat(1_024)}</${name}>`;
          response.writeHead(400, { 'content-type': 'application/xml' });
          response.end(
            `<Error>${name === 'Code' ? words.slice('<Code>A</Code>'.length) : words}</Error>`,
          );
        });
        const error = await errorOf(destination.createFile(options('a'), journal));
        expect(error.code).toMatch(/^destination\./);
        // PostgreSQL refuses half a character in JSON.
        expect(error.detail).toBe(Buffer.from(error.detail ?? '').toString());
        expect(error.detail?.length).toBeLessThanOrEqual(300);
      }
    },
  );

  it('that is not XML is not parsed', async () => {
    const { destination } = await open((_, response) => {
      response.writeHead(200).end(`<ListBucketResult>${'&'.repeat(1_000)}</ListBucketResult>`);
    });
    const error = await errorOf(drain(destination.listFiles('')));
    expect(error.code).toBe('destination.unavailable');
    expect(error.message).toContain('the answer to ListObjectsV2 is not XML');
  });

  it('without an end that is an error is cut off too', async () => {
    const fails: Answer = (_, response) => sendEndlessly(response, '<Error>', endless, 500);
    const { store, destination } = await open(fails);
    expect((await errorOf(drain(destination.listFiles('')))).code).toBe('destination.unavailable');
    await until(() => store.openConnections() === 0, { message: () => 'the connection ends' });
    expect(store.sentBytes()).toBeLessThan(endless / 4);
  });

  it('without an end at the key of a manifest is cut off after 16 MiB', async () => {
    const { store, destination } = await open((_, response) =>
      sendEndlessly(response, '{', endless),
    );
    const error = await errorOf(readManifestAt(destination, 'a_manifest.json'));
    expect(error.code).toBe('destination.invalid_answer');
    expect(error.message).toContain('the answer to GetObject is longer than 16 MiB');
    await until(() => store.openConnections() === 0, { message: () => 'the connection ends' });
    expect(store.sentBytes()).toBeLessThan(endless / 2);
  });

  it('without an end to a request for one byte is not read', async () => {
    const { store, destination } = await open((request, response) => {
      if (request.method === 'HEAD') return void response.writeHead(403).end();
      return sendEndlessly(response, '', endless);
    });
    await destination.statFile('a');
    await until(() => store.openConnections() === 0, { message: () => 'the connection ends' });
    expect(store.sentBytes()).toBeLessThan(endless / 4);
  });

  it('that is longer than its receipt says is left by verify', async () => {
    const { store, destination } = await open((_, response) =>
      sendEndlessly(response, '', endless),
    );
    const file = { key: 'a', rows: 1, bytes: 10, sha256: '' };
    const receipt = { manifestKey: null, files: [file], rejectedFiles: [] };
    const readRows = () => {
      throw new Error('no row is read');
    };
    const faults = await verifyFiles(
      { destination, readRows },
      receipt as unknown as Receipt,
      { format: 'JSONLines', compression: null },
      [],
      () => {},
    );
    expect(faults).toEqual(['a has more bytes than the 10 of its manifest']);
    await until(() => store.openConnections() === 0, { message: () => 'the connection ends' });
    expect(store.sentBytes()).toBeLessThan(endless / 4);
  });

  it('that is a file has no limit', async () => {
    const { destination } = await open((_, response) => sendEndlessly(response, '', 20 * mebibyte));
    const found = await destination.readFile('a');
    let bytes = 0;
    for await (const chunk of found?.body ?? []) bytes += chunk.length;
    expect(bytes).toBe(20 * mebibyte);
  });
});

describe('informational answers', () => {
  const withInformation =
    (count: number): Answer =>
    (_, response) => {
      for (let sent = 0; sent < count; sent += 1) response.writeProcessing();
      sendXml(response, 'ListBucketResult', '<IsTruncated>false</IsTruncated>');
    };

  it('are ten at most', async () => {
    const { destination } = await open(withInformation(11));
    const error = await errorOf(drain(destination.listFiles('')));
    expect(error.code).toBe('destination.invalid_answer');
    expect(error.message).toContain('more than 10 informational answers to ListObjectsV2');
  });

  it('may be ten', async () => {
    const { destination } = await open(withInformation(10));
    await expect(drain(destination.listFiles(''))).resolves.toBeUndefined();
  });
});

describe('a list without an end', () => {
  /** Answers each page; the number begins at 1. */
  const paged = (content: (page: number) => string, name: string): Answer => {
    let page = 0;
    return (_, response) => {
      page += 1;
      sendXml(response, name, `<IsTruncated>true</IsTruncated>${content(page)}`);
    };
  };

  it.each([
    ['the same', () => 'key'],
    ['falls', (page: number) => `key ${9 - page}`],
  ])('of uploads ends if the marker is %s', async (_, keyOf) => {
    const answer = paged(
      (page) => `<NextKeyMarker>${keyOf(page)}</NextKeyMarker>`,
      'ListMultipartUploadsResult',
    );
    const { store, destination } = await open(answer);
    const error = await errorOf(drain(destination.listUploads('')));
    expect(error.code).toBe('destination.invalid_answer');
    expect(store.requests).toHaveLength(2);
  });

  it('of uploads ends with its signal, though each page is new', async () => {
    const stop = new AbortController();
    const { store, destination } = await open((_, response) => {
      if (store.requests.length === 5) stop.abort();
      const key = String(store.requests.length).padStart(9, '0');
      const content = `<IsTruncated>true</IsTruncated><NextKeyMarker>${key}</NextKeyMarker>`;
      sendXml(response, 'ListMultipartUploadsResult', content);
    });
    await errorOf(drain(destination.listUploads('', stop.signal)));
    expect(store.requests).toHaveLength(5);
  });

  it('of parts is asked for three times when an upload is given up', async () => {
    const { store, destination } = await open((request, response) => {
      if (request.method === 'DELETE') return void response.writeHead(204).end();
      const next = '<NextPartNumberMarker>1</NextPartNumberMarker>';
      const part = '<Part><PartNumber>1</PartNumber><ETag>"t"</ETag><Size>1</Size></Part>';
      sendXml(response, 'ListPartsResult', `<IsTruncated>true</IsTruncated>${next}${part}`);
    });
    await destination.abortUpload(upload);
    expect(store.requests.filter((request) => request.startsWith('GET'))).toHaveLength(3);
  });

  it('of objects ends if a token comes again', async () => {
    const answer = paged(
      (page) => `<NextContinuationToken>${page % 3}</NextContinuationToken>`,
      'ListBucketResult',
    );
    const { store, destination } = await open(answer);
    const error = await errorOf(drain(destination.listFiles('')));
    expect(error.code).toBe('destination.invalid_answer');
    expect(store.requests).toHaveLength(4);
  });
});

describe('a store that never answers', () => {
  const calls = casesOf<
    readonly [string, (destination: Destination, signal: AbortSignal) => Promise<unknown>]
  >(
    [
      ['statFile', (destination, signal) => destination.statFile('a', signal)],
      ['readFile', (destination, signal) => destination.readFile('a', { signal })],
      ['deleteFiles', (destination, signal) => destination.deleteFiles(['a'], signal)],
      ['abortUpload', (destination, signal) => destination.abortUpload(upload, signal)],
      ['listUploads', (destination, signal) => drain(destination.listUploads('', signal))],
    ],
    // It takes seconds: it removes what it may have put.
    [['probe', (destination, signal) => destination.probe(signal)]],
  );

  it.each(calls)('does not keep %s after its signal', async (_, call) => {
    const { store, destination } = await open(() => {});
    const stop = new AbortController();
    const failing = errorOf(call(destination, stop.signal));
    await until(() => store.requests.length > 0, { message: () => 'it asks' });
    stop.abort();
    await failing;
  });
});

describe('a slow drip', () => {
  /** A fraction of what the defaults are, in the same proportion. */
  const limits = { stallTimeoutMs: 400, minBytesPerSecond: 64 * 1024 };
  /** More than the stall watch demands, so that only the speed is too low. */
  const dripping: Answer = (_, response) => drip(response, 1_200, 50);

  it.each(xmlCalls)('does not hold %s', async (_, call) => {
    const { destination } = await open(dripping, limits);
    expect((await errorOf(call(destination))).code).toBe('destination.stalled');
  });

  it('does not hold the reader of a file', async () => {
    const { destination } = await open(dripping, limits);
    const found = await destination.readFile('a');
    expect((await errorOf(drain(found?.body ?? []))).code).toBe('destination.stalled');
  });

  it('does not hold a part that the store takes slowly', async () => {
    const partBytes = 24 * mebibyte;
    const { destination } = await open(
      (request, response) => {
        if (request.method === 'POST') {
          const content = '<Bucket>bucket</Bucket><Key>a</Key><UploadId>id</UploadId>';
          return sendXml(response, 'InitiateMultipartUploadResult', content);
        }
        if (request.method === 'DELETE') return void response.writeHead(204).end();
        // About 64 KiB at a time, so that the request never stalls.
        request.on('data', () => {
          request.pause();
          setTimeout(() => request.resume(), 10);
        });
        request.once('end', () => response.writeHead(200, { etag: '"tag"' }).end());
      },
      { stallTimeoutMs: 1_000, minBytesPerSecond: 256 * mebibyte, partBytes },
    );
    const writer = await destination.createFile(options('a'), journal);
    await writer.write(Buffer.alloc(partBytes));
    expect((await errorOf(writer.flush())).code).toBe('destination.stalled');
    await writer.abort();
  });

  it('is no file that comes fast enough', async () => {
    const { destination } = await open((_, response) => {
      response.writeHead(200, { etag: '"tag"' });
      let sent = 0;
      const timer = setInterval(() => {
        response.write(Buffer.alloc(32 * 1024));
        sent += 1;
        if (sent === 30) response.end();
      }, 50);
      response.once('close', () => clearInterval(timer));
    }, limits);
    const found = await destination.readFile('a');
    await expect(drain(found?.body ?? [])).resolves.toBeUndefined();
  });
});
