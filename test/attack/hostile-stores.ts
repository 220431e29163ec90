import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  drip,
  type HostileStore,
  sendEndlessly,
  sendXml,
  startHostileStore,
} from '../support/hostile-store.ts';

/** Documents of a few MiB that could become millions of objects. */
const names = `{"files": {${Array.from({ length: 600_000 }, (_, n) => `"${n.toString(36)}":1`).join()}}}`;
const objects = `{"files": [${'{},'.repeat(2_000_000)}{}]}`;
const elements = '<b/>'.repeat(200_000);
const entities = `<Contents><Key>${'&amp;'.repeat(150_000)}</Key></Contents>`;
/** Cut after any number of UTF-16 units, it may end in half a character. */
const error = `<Error><Code>a${'😀'.repeat(512)}</Code><Message>${'😀'.repeat(1_024)}</Message></Error>`;

let turn = 0;

/** Answers each request with one of them. */
function multiply(request: IncomingMessage, response: ServerResponse): void {
  const { method, url = '' } = request;
  request.resume();
  turn += 1;
  if (method === 'GET' && /list-type|uploads|uploadId/.test(url)) {
    sendXml(response, 'ListBucketResult', turn % 2 === 0 ? elements : entities);
  } else if (method === 'GET') {
    response.writeHead(200, { etag: '"tag"' }).end(turn % 2 === 0 ? names : objects);
  } else {
    response.writeHead(400, { 'content-type': 'application/xml' }).end(error);
  }
}

const endless = 2 ** 40;
const list = '<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated>';

/** Says yes to each upload, and lists parts without an end. */
function lie(request: IncomingMessage, response: ServerResponse): void {
  const url = request.url ?? '';
  request.resume();
  if (request.method === 'POST' && url.includes('uploads')) {
    sendXml(response, 'InitiateMultipartUploadResult', '<UploadId>id</UploadId>');
  } else if (request.method === 'GET' && url.includes('uploadId')) {
    const marker = Math.floor(Math.random() * 1e9);
    const next = `<NextPartNumberMarker>${marker}</NextPartNumberMarker>`;
    sendXml(response, 'ListPartsResult', `<IsTruncated>true</IsTruncated>${next}`);
  } else if (request.method === 'GET') {
    response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>');
  } else response.writeHead(200, { etag: '"tag"' }).end();
}

/** By what they do to a request. */
const behaviours = {
  endless: (_request: IncomingMessage, response: ServerResponse) =>
    sendEndlessly(response, list, endless),
  dripping: (_request: IncomingMessage, response: ServerResponse) => drip(response, 2_048, 4_000),
  silent: () => {},
  lying: lie,
  multiplying: multiply,
  informing: (_request: IncomingMessage, response: ServerResponse) => {
    const timer = setInterval(() => response.writeProcessing(), 1);
    response.once('close', () => clearInterval(timer));
  },
};

export async function startHostileStores(): Promise<readonly HostileStore[]> {
  return Promise.all(Object.values(behaviours).map((answer) => startHostileStore(answer)));
}
