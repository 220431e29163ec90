import type { IncomingMessage, ServerResponse } from 'node:http';
import { multiply } from './hostile-documents.ts';
import {
  drip,
  type HostileStore,
  sendEndlessly,
  sendXml,
  startHostileStore,
} from '../support/hostile-store.ts';

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
