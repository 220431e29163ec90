import {
  createServer as createHttp,
  type IncomingMessage,
  request as sendHttp,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttps } from 'node:https';
import { connect as connectTcp, createServer as createTcp } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { toSluiceError } from '../../src/foundation/domain/errors.ts';
import type { Destination } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, owner } from '../conformance/destination-suite.ts';
import { serve, upload } from '../support/s3-destination.ts';
import { startS3Server } from '../support/s3-server/server.ts';
import { tlsFiles } from '../support/tls-certificates.ts';
import { inTest, listenInTest } from '../support/use-stage.ts';

/** What answers at the address is not the store: a person must change something, and the words say what. */

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const credentials = { accessKeyId: 'AKIATEST000000000001', secretAccessKey: 'a secret' };

function openAt(endpoint: string, partBytes = 5 * 1024 ** 2): Destination {
  const config = {
    bucket_name: 'exports',
    region: 'us-east-1',
    aws_access_key_id: credentials.accessKeyId,
    aws_secret_access_key: credentials.secretAccessKey,
    endpoint_url: endpoint,
  };
  const requestRetry = { maxAttempts: 2, baseMs: 1, capMs: 1 };
  const destination = s3Definition.open(config, contextWith({ requestRetry, partBytes }), owner);
  onTestFinished(() => destination.close());
  return destination;
}

/** A server that reads each request to its end and answers. */
async function openAnswering(answer: Answer): Promise<Destination> {
  return openAt(`http://127.0.0.1:${await serve(answer)}`);
}

const page =
  (status: number, body: string, headers: Readonly<Record<string, string>> = {}): Answer =>
  (_, response) =>
    response.writeHead(status, { 'content-type': 'text/html', ...headers }).end(body);

const json =
  (status: number, body: string): Answer =>
  (_, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);

const login = '<!DOCTYPE html><html><form><input name="p" type="password"></form></html>';
const html = '<html><body>It works!</body></html>';

const strangers: Readonly<Record<string, readonly [Answer, RegExp]>> = {
  'a body limit of a proxy': [
    page(413, '<html><h1>413 Request Entity Too Large</h1></html>'),
    /413 with a page of HTML\. A proxy or gateway .* this one has \d+ bytes\. Raise that limit/,
  ],
  'a login page': [
    page(200, login),
    /a page of HTML\. A login page or portal answers\. Set endpoint_url/,
  ],
  'a login page of well-formed XML': [
    page(200, '<html xmlns="http://www.w3.org/1999/xhtml"><p>Please sign in.</p></html>'),
    /a login page or portal/i,
  ],
  'a redirect to a login': [
    page(302, '<html>Found</html>', { location: 'https://sso.example.com/login?next=x' }),
    /302 .*A login page or portal answers, at https:\/\/sso\.example\.com\/login/,
  ],
  'a redirect to TLS': [
    page(301, '<html>Moved</html>', { location: 'https://127.0.0.1/exports' }),
    /redirects to https:\/\/127.*begins with https:\/\//,
  ],
  'a captive portal': [page(511, html), /511 .*A login page or portal/],
  'a console that takes no PUT': [
    page(405, html),
    /405 .*endpoint_url may be the address of a console/,
  ],
  'a 405 without a body': [page(405, ''), /405 with no body\. .*console/],
  'a proxy that wants credentials': [page(407, html), /407 .*A proxy asks for its credentials/],
  'a page of nginx': [
    page(404, '<html><h1>404 Not Found</h1></html>'),
    /404 with a page of HTML\. Set endpoint_url/,
  ],
  'a long page': [page(403, `<html>${'x'.repeat(100_000)}</html>`), /403 with a page of HTML/],
  'a 403 without a body': [page(403, ''), /403 with no body/],
  'a port of nginx that speaks TLS': [
    page(400, '<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>'),
    /The port speaks TLS\. Set endpoint_url to an address that begins with https/,
  ],
  'an API gateway': [json(403, '{"message":"Missing Authentication Token"}'), /403 with JSON/],
  'an API gateway that says 200': [json(200, '{"ok":true}'), /200 with JSON/],
  'a server that says OK to all': [
    page(200, 'OK', { 'content-type': 'text/plain' }),
    /HTTP 200 with(?:out an ETag| a body \(text\/plain\) that is no answer of S3)/,
  ],
  'a server that says nothing': [
    page(200, ''),
    /HTTP 200 with(?:out an (?:ETag|upload id)| no body)/,
  ],
  'a server that speaks another XML': [
    page(200, '<Envelope><Body/></Envelope>', { 'content-type': 'text/xml' }),
    /HTTP 200 with(?:out an (?:ETag|upload id)| a body \(text\/xml\) that is no answer of S3)/,
  ],
};

/** A success without a body says nothing of who answers. */
const saysNothing = /says nothing|another XML/;

/** What a run sends. */
const calls: Readonly<Record<string, (destination: Destination) => Promise<unknown>>> = {
  'a small file': async (destination) => {
    await upload({ destination }, Buffer.alloc(1_000));
  },
  'a manifest': (destination) => destination.commitManifest('m.json', Buffer.from('{}'), null),
  'a read': (destination) => destination.readFile('m.json'),
  'a removal': (destination) => destination.deleteFiles(['a']),
  'a look at a file': (destination) => destination.statFile('a', AbortSignal.timeout(60_000)),
  'a list': async (destination) => {
    for await (const _ of destination.listFiles('')) break;
  },
};

/** What a call fails with. */
const failed = async (destination: Destination, call: string) =>
  toSluiceError(
    await calls[call]?.(destination).then(
      () => new Error('it succeeded'),
      (error: unknown) => error,
    ),
  );

describe.each(Object.entries(strangers))('%s', (name, [answer, says]) => {
  const failing = Object.keys(calls).filter(
    (call) => call !== 'a removal' || !saysNothing.test(name),
  );
  it.each(failing)('is recognised by %s, and final', async (call) => {
    const destination = await openAnswering(answer);
    const error = await failed(destination, call);
    expect(error).toMatchObject({ code: 'destination.not_a_store', spec: { retryable: false } });
    // A read does not look into the body of a success.
    const isUnread = /^a (?:read|look)/.test(call) && error.detail?.startsWith('HTTP 200');
    if (!isUnread) expect(error.detail).toMatch(says);
  });
});

it.each([
  [500, 'destination.unavailable'],
  [502, 'destination.unavailable'],
  [503, 'destination.unavailable'],
  [408, 'destination.unavailable'],
  [429, 'destination.throttled'],
])('a page of %i is transient', async (status, code) => {
  const destination = await openAnswering(page(status, html));
  for (const call of Object.keys(calls)) expect((await failed(destination, call)).code).toBe(code);
});

it('one page among many answers costs nothing', async () => {
  const server = await inTest(startS3Server({ buckets: ['exports'], credentials }));
  const destination = openAt(server.endpoint);
  const effect = { foreignAnswer: { status: 403, body: html } };
  server.faults.add({ match: { operation: 'PutObject' }, times: 1, effect });
  await calls['a manifest']?.(destination);
});

const tls = { key: tlsFiles.serverKey, cert: tlsFiles.serverCertificate };

const openTls = () => listenInTest(createHttps(tls, (_, response) => response.end()));

/** A port whose first bytes are these, whatever it is asked; of TLS, another one answers. */
async function openSpeaking(bytes: string | Buffer, tlsPort: number | null): Promise<Destination> {
  const server = createTcp((socket) => {
    socket
      .on('error', () => {})
      .once('data', (sent) => {
        if (sent[0] !== 22 || tlsPort === null) return socket.end(bytes);
        const secure = connectTcp(tlsPort, '127.0.0.1').on('error', () => {});
        secure.write(sent);
        return socket.pipe(secure).pipe(socket);
      });
  });
  return openAt(`http://127.0.0.1:${await listenInTest(server)}`);
}

it.each([
  ['SSH', 'SSH-2.0-OpenSSH_9.6\r\n'],
  ['SMTP', '220 mail.example ESMTP\r\n'],
  ['Redis', "-ERR unknown command 'PUT'\r\n"],
  ['HTTP/2 alone', Buffer.from([0, 0, 18, 4, 0, 0, 0, 0, 0])],
])('a port that speaks %s is recognised', async (_, bytes) => {
  for (const call of ['a small file', 'a list']) {
    const destination = await openSpeaking(bytes, null);
    const error = await failed(destination, call);
    expect(error).toMatchObject({ code: 'destination.not_a_store', spec: { retryable: false } });
    expect(error.detail).toMatch(/does not speak HTTP\. Set endpoint_url/);
  }
});

const speaksTls = /the port speaks TLS\. Set endpoint_url to .* https:\/\//;
const alert = Buffer.from([21, 3, 3, 0, 2, 2, 70]);

it.each<[string, () => Promise<Destination>, string, string, RegExp]>([
  [
    'that speaks TLS is recognised, though it says nothing to a plain request',
    async () => openAt(`http://127.0.0.1:${await openTls()}`),
    'a read',
    'not_a_store',
    speaksTls,
  ],
  [
    'that answers a plain request with an alert of TLS is recognised',
    async () => openSpeaking(alert, await openTls()),
    'a manifest',
    'not_a_store',
    speaksTls,
  ],
  [
    'that does not speak TLS is recognised',
    async () => openAt(`https://127.0.0.1:${await serve((_, response) => response.end())}`),
    'a read',
    'not_a_store',
    /The port does not speak TLS\. .*http:\/\//,
  ],
  [
    'whose connections are reset for another reason is transient',
    async () =>
      openAt(
        `http://127.0.0.1:${await listenInTest(createHttp((request) => request.socket.destroy()))}`,
      ),
    'a read',
    'unavailable',
    /./,
  ],
])('a port %s', async (_, open, call, code, detail) => {
  const error = await failed(await open(), call);
  expect(error.code).toBe(`destination.${code}`);
  expect(error.detail).toMatch(detail);
});

describe('the test of a destination', () => {
  it('sends one part as long as those of a run, and leaves nothing', async () => {
    const server = await inTest(startS3Server({ buckets: ['exports'], credentials }));
    const destination = openAt(server.endpoint, 6 * 1024 ** 2);
    const steps = await destination.test(AbortSignal.timeout(60_000));
    expect(steps.filter(({ passed }) => !passed)).toEqual([]);
    expect(server.objects('exports')).toEqual([]);
    expect(server.uploads('exports')).toEqual([]);
  });

  it('is not green if a proxy before the store refuses each part', async () => {
    const server = await inTest(startS3Server({ buckets: ['exports'], credentials }));
    const proxy = createHttp((request, response) => {
      // What is longer than the limit of nginx. The parts of the probe are short, and pass.
      if (Number(request.headers['content-length'] ?? 0) > 1024 ** 2) {
        return request.resume().on('end', () => page(413, '<html>413</html>')(request, response));
      }
      const { method, url, headers } = request;
      const forwarded = sendHttp(`${server.endpoint}${url}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      return request.pipe(forwarded);
    });
    const destination = openAt(`http://127.0.0.1:${await listenInTest(proxy)}`, 6 * 1024 ** 2);
    const steps = await destination.test(AbortSignal.timeout(60_000));
    expect(steps.at(-1)).toMatchObject({ step: 'write', passed: false });
    expect(steps.at(-1)?.error).toContain(`this one has ${6 * 1024 ** 2} bytes. Raise that limit`);
    expect(server.objects('exports')).toEqual([]);
    expect(server.uploads('exports')).toEqual([]);
  });
});
