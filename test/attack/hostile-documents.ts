import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendXml } from '../support/hostile-store.ts';

/** Documents of a few MiB that could become millions of objects. */
const names = `{"files": {${Array.from({ length: 600_000 }, (_, n) => `"${n.toString(36)}":1`).join()}}}`;
const objects = `{"files": [${'{},'.repeat(2_000_000)}{}]}`;
const elements = '<b/>'.repeat(200_000);
const entities = `<Contents><Key>${'&amp;'.repeat(150_000)}</Key></Contents>`;
/** Cut after any number of UTF-16 units, it may end in half a character. */
const error = `<Error><Code>a${'😀'.repeat(512)}</Code><Message>${'😀'.repeat(1_024)}</Message></Error>`;

let turn = 0;

/** Answers each request with one of them. */
export function multiply(request: IncomingMessage, response: ServerResponse): void {
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
