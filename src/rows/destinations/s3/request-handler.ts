import {
  type Agent,
  type ClientRequest,
  type IncomingMessage,
  request as httpRequest,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { DestinationContext, OwnedRequest } from '../destination.ts';
import { checkLength, maxXmlBytes, nameOf, readAnswer } from './answer.ts';
import { readErrorAnswer } from './error-answer.ts';
import { notAStore, usualAdvice } from './not-the-store.ts';
import { StalledError, type StallLimits, watchForStall } from './stall-watch.ts';

export interface SdkRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly query?: Record<string, string | readonly string[] | null>;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: Uint8Array | string;
}

type Limits = Pick<
  DestinationContext,
  'httpAgent' | 'httpsAgent' | 'connectTimeoutMs' | 'stallTimeoutMs' | 'minBytesPerSecond'
>;

/** A write counts as sent once the system took it, so stalls are seen at this granularity. */
const writeBytes = 128 * 1024;

/** Must move within a stall timeout; less is a trickle. */
const minBytes = 1024;

/** Answers such as 102 Processing that a store may send before its answer. */
const maxInformational = 10;

/** Sends the SDK's requests to STS as ours are sent. @param tenant on whose behalf names are resolved */
export function createRequestHandler(limits: Limits, tenant: string) {
  return {
    metadata: { handlerProtocol: 'http/1.1' },
    destroy: () => {},
    updateHttpClientConfig: () => {},
    httpHandlerConfigs: () => ({}),
    async handle(request: SdkRequest, options: SendOptions = {}) {
      const { body, ...answer } = await sendRequest(request, limits, tenant, options);
      const isError = answer.statusCode < 200 || answer.statusCode >= 300;
      return { response: { ...answer, body: isError ? body : streamOf(body) } };
    },
  };
}

function streamOf(body: Buffer | IncomingMessage): Readable {
  if (!Buffer.isBuffer(body)) return body;
  return Readable.from(body.length === 0 ? [] : [body], { objectMode: false });
}

export interface SentAnswer {
  readonly statusCode: number;
  readonly reason: string;
  readonly headers: Record<string, string>;
  /** A stream if it may have any length; an error's document is read whole. */
  readonly body: Buffer | IncomingMessage;
}

export interface SendOptions {
  readonly abortSignal?: AbortSignal;
  /** Maximum bytes of the body; default: enough for XML. Null: it is a stream, which the caller must read or leave. */
  readonly maxBodyBytes?: number | null;
  /** Called once the connection is open, right before the first byte. If it throws, nothing is sent. */
  readonly beforeSend?: () => void;
}

/**
 * Sees each write leave, so that it can tell a trickle from a stall. It also limits each answer in bytes and time: any host
 * may be named as a store. It follows no redirects and uses only the given agents, which it leaves open.
 *
 * @throws UnreadAnswer if an error's answer has no error document of S3; StalledError; SluiceError
 *   `destination.invalid_answer`; errors of the connection
 */
export function sendRequest(
  request: SdkRequest,
  limits: Limits,
  tenant: string,
  options: SendOptions,
): Promise<SentAnswer> {
  const { abortSignal: signal, maxBodyBytes = maxXmlBytes, beforeSend } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    const outgoing = open(request, limits, tenant);
    const onAbort = () => outgoing.destroy(abortError(signal));
    signal?.addEventListener('abort', onAbort, { once: true });
    outgoing.once('close', () => signal?.removeEventListener('abort', onAbort));
    // Stays attached: after the response the reader gets the error, and it must not end the process
    // here.
    outgoing.on('error', (error) => {
      if (!isOtherProtocol(error, outgoing, request) || signal?.aborted) return reject(error);
      explainProtocol(error, request, limits, tenant).then(reject);
    });
    limitInformational(outgoing, request);
    outgoing.once('response', (response) => {
      const statusCode = response.statusCode ?? 0;
      const headers = Object.fromEntries(
        Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
      );
      const answer = (body: Buffer | IncomingMessage) =>
        resolve({ statusCode, reason: response.statusMessage ?? '', headers, body });
      const isSuccess = statusCode >= 200 && statusCode < 300;
      try {
        checkLength(`the ETag of the answer to ${nameOf(request)}`, headers.etag);
      } catch (error) {
        response.destroy();
        return reject(error);
      }
      if (!isSuccess) {
        readErrorAnswer(response, request, nameOf(request)).then(answer, reject);
      } else if (maxBodyBytes === null) answer(response);
      else readAnswer(response, request, maxBodyBytes).then(answer, reject);
    });
    limitConnect(outgoing, limits.connectTimeoutMs);
    let sentBytes = () => 0;
    const send = () => {
      sentBytes = writeBody(outgoing, request.body);
    };
    if (beforeSend) sendChecked(outgoing, beforeSend, send);
    else send();
    watchForStall(outgoing, () => sentBytes(), stallLimits(request, limits));
  });
}

/** Each costs time and memory, and none ends the wait for the answer. */
function limitInformational(outgoing: ClientRequest, request: SdkRequest): void {
  let seen = 0;
  outgoing.on('information', () => {
    seen += 1;
    if (seen <= maxInformational) return;
    const detail = `more than ${maxInformational} informational answers to ${nameOf(request)}`;
    outgoing.destroy(new SluiceError('destination.invalid_answer', detail));
  });
}

function open(request: SdkRequest, limits: Limits, tenant: string): ClientRequest {
  const secure = request.protocol !== 'http:';
  const agent: Agent = secure ? limits.httpsAgent : limits.httpAgent;
  const query = queryString(request.query ?? {});
  const owned: OwnedRequest = { tenant };
  return (secure ? httpsRequest : httpRequest)({
    ...owned,
    agent,
    host: request.hostname.replace(/^\[|\]$/g, ''),
    port: request.port,
    method: request.method,
    path: query === '' ? request.path : `${request.path}?${query}`,
    headers: request.headers,
  });
}

/** Nothing leaves before the first write, so a check between it and the open connection is the last of all. */
function sendChecked(outgoing: ClientRequest, check: () => void, send: () => void): void {
  const sendNow = () => {
    if (outgoing.destroyed) return;
    try {
      check();
    } catch (error) {
      outgoing.destroy(error as Error);
      return;
    }
    send();
  };
  outgoing.once('socket', (socket: Socket) => {
    const opens = openingOf(socket);
    if (opens === null) sendNow();
    else socket.once(opens, sendNow);
  });
}

/** The event that says that bytes can be sent; null if they can be now. */
function openingOf(socket: Socket): 'connect' | 'secureConnect' | null {
  // Until the handshake is complete.
  if (socket instanceof TLSSocket) return socket.alpnProtocol !== null ? null : 'secureConnect';
  return socket.connecting ? 'connect' : null;
}

/** Writes piece by piece, each after the one before was sent. @returns the bytes sent so far */
function writeBody(outgoing: ClientRequest, body: Uint8Array | string | undefined): () => number {
  const bytes = typeof body === 'string' ? Buffer.from(body) : (body ?? new Uint8Array(0));
  let sent = 0;
  // One call sends the headers and a small body in one packet.
  if (bytes.length <= writeBytes) {
    outgoing.end(bytes, () => {
      sent = bytes.length;
    });
    return () => sent;
  }
  const writeNext = (): void => {
    if (sent >= bytes.length) {
      outgoing.end();
      return;
    }
    const chunk = bytes.subarray(sent, sent + writeBytes);
    outgoing.write(chunk, (error) => {
      if (error) return;
      sent += chunk.length;
      writeNext();
    });
  };
  writeNext();
  return () => sent;
}

function limitConnect(outgoing: ClientRequest, connectTimeoutMs: number): void {
  outgoing.once('socket', (socket: Socket) => {
    if (!socket.connecting) return;
    const timer = setTimeout(() => {
      outgoing.destroy(Object.assign(new Error('No connection in time'), { code: 'ETIMEDOUT' }));
    }, connectTimeoutMs);
    socket.once('connect', () => clearTimeout(timer));
    outgoing.once('close', () => clearTimeout(timer));
  });
}

/** A store may need minutes to complete an upload, and sends blanks meanwhile: each byte counts, within a total limit. */
function stallLimits(request: SdkRequest, limits: Limits): StallLimits {
  const { stallTimeoutMs } = limits;
  const completes = request.method === 'POST' && request.query?.uploadId !== undefined;
  return completes
    ? { stallTimeoutMs, minBytes: 1, totalMs: 10 * stallTimeoutMs, minBytesPerSecond: null }
    : { stallTimeoutMs, minBytes, totalMs: null, minBytesPerSecond: limits.minBytesPerSecond };
}

function abortError(signal: AbortSignal | undefined): Error {
  if (signal?.reason instanceof DOMException && signal.reason.name === 'TimeoutError') {
    return new StalledError();
  }
  return Object.assign(new Error('The request was aborted'), { name: 'AbortError' });
}

type Sent = Pick<SdkRequest, 'protocol' | 'hostname' | 'port'>;

const noHttp = 'HPE_INVALID_CONSTANT';

/**
 * Says whether the first bytes of a new connection are no answer of HTTP, or a connection without TLS was closed before any
 * byte. Ports that speak TLS do the one or the other.
 */
function isOtherProtocol(error: Error, outgoing: ClientRequest, { protocol }: Sent): boolean {
  const { code } = error as NodeJS.ErrnoException;
  const { socket, reusedSocket } = outgoing;
  if (reusedSocket || code === noHttp) return !reusedSocket;
  return protocol === 'http:' && code === 'ECONNRESET' && socket?.bytesRead === 0;
}

/** Tries by a handshake whether the port speaks TLS. @returns what the owner of the export should see */
async function explainProtocol(
  error: NodeJS.ErrnoException,
  request: Sent,
  limits: Limits,
  tenant: string,
): Promise<Error> {
  if (request.protocol === 'http:' && (await speaksTls(request, limits, tenant))) {
    return notAStore(
      'No answer of HTTP came, and the port speaks TLS. Set endpoint_url to an address that begins with https://.',
    );
  }
  return error.code !== noHttp ? error : notAStore(`The port does not speak HTTP. ${usualAdvice}`);
}

function speaksTls(
  { hostname, port }: Sent,
  { httpsAgent, connectTimeoutMs }: Limits,
  tenant: string,
): Promise<boolean> {
  const owned: OwnedRequest = { tenant };
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const outgoing = httpsRequest({ ...owned, agent: httpsAgent, host, port, method: 'HEAD' });
    const end = (speaks: boolean) => {
      clearTimeout(overdue);
      outgoing.destroy();
      resolve(speaks);
    };
    const overdue = setTimeout(() => end(false), connectTimeoutMs);
    outgoing.once('socket', (socket) => socket.once('secureConnect', () => end(true)));
    // Its certificate may be one that is not accepted.
    outgoing.on('error', (found: NodeJS.ErrnoException) =>
      end(/CERT|SIGNATURE/.test(found.code ?? '')),
    );
  });
}

/** Encoded and sorted as it is signed. */
export function queryString(
  query: Readonly<Record<string, string | readonly string[] | null>>,
): string {
  return Object.keys(query)
    .sort()
    .flatMap((name) => {
      const value = query[name] ?? null;
      if (value === null) return [encode(name)];
      const values = typeof value === 'string' ? [value] : value;
      return values.map((each) => `${encode(name)}=${encode(each)}`);
    })
    .join('&');
}

/** RFC 3986: all but unreserved characters. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
