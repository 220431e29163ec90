import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { authenticate } from './authentication.ts';
import { readBody } from './body.ts';
import { completeMultipartUpload } from './complete-upload.ts';
import { type Context, type Handler, httpTime, type S3Response } from './context.ts';
import { errorDocument, messageOf, S3Error } from './errors.ts';
import type { FaultEffect, ForeignAnswer } from './faults.ts';
import { listMultipartUploads, listObjects } from './listing.ts';
import { abortMultipartUpload, createMultipartUpload, listParts, uploadPart } from './multipart.ts';
import { deleteObject, getObject, headBucket, putObject } from './objects.ts';
import type { OperationName } from './operations.ts';
import { disguise, obeyPolicy } from './quirks.ts';
import { parseRequest, type S3Request } from './request.ts';
import type { ServerState } from './server.ts';

const handlers: Record<OperationName, Handler> = {
  AbortMultipartUpload: abortMultipartUpload,
  CompleteMultipartUpload: completeMultipartUpload,
  CreateMultipartUpload: createMultipartUpload,
  DeleteObject: deleteObject,
  GetObject: getObject,
  HeadBucket: headBucket,
  HeadObject: getObject,
  ListMultipartUploads: listMultipartUploads,
  ListObjectsV2: listObjects,
  ListParts: listParts,
  PutObject: putObject,
  UploadPart: uploadPart,
  Unknown: () => {
    throw new S3Error('NotImplemented');
  },
};

/** One line of `server.requests`. Holds nothing secret. */
export interface RequestLogEntry {
  id: string;
  method: string;
  operation: OperationName;
  bucket: string | undefined;
  key: string | undefined;
  /** null while it runs, and for ever if the connection ended without an answer. */
  status: number | null;
  /** The error code of the answer. */
  code: string | undefined;
  /** Body bytes that came in and went out. */
  requestBytes: number;
  responseBytes: number;
  /** The kind of fault that hit it. */
  fault: keyof typeof effectNames | undefined;
}

const effectNames = {
  status: true,
  delayMs: true,
  resetAfterBytes: true,
  halfOpen: true,
  trickleBytesPerSecond: true,
  okWithError: true,
  loseResponse: true,
  cutBodyAfterBytes: true,
  foreignAnswer: true,
};

function nameOf(effect: FaultEffect): keyof typeof effectNames {
  return (Object.keys(effect) as (keyof typeof effectNames)[]).find(
    (name) => name in effectNames,
  ) as keyof typeof effectNames;
}

/** The connection is gone, by a fault or by the client: no client is left to answer. */
class ConnectionLost extends Error {}

interface Wire {
  message: IncomingMessage;
  response: ServerResponse;
  /** The client waits for `100 Continue` before it sends the body. */
  awaitsContinue: boolean;
  entry: RequestLogEntry;
  effect: FaultEffect | null;
  /** Fires when the connection closes. */
  signal: AbortSignal;
}

function hasRequestBody({ headers }: IncomingMessage): boolean {
  return Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined;
}

function cutConnection({ message }: Wire): never {
  message.socket.resetAndDestroy();
  throw new ConnectionLost();
}

/** Passes pieces on, as slowly as the fault says, and cuts the connection if it says so. */
async function* underFault(
  wire: Wire,
  source: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<Buffer> {
  const { effect, signal } = wire;
  const limit = effect && 'resetAfterBytes' in effect ? effect.resetAfterBytes : null;
  const pace = effect && 'trickleBytesPerSecond' in effect ? effect.trickleBytesPerSecond : null;
  let passed = 0;
  if (limit === 0) cutConnection(wire);
  for await (const chunk of source) {
    const step = pace === null ? chunk.length : Math.max(1, Math.ceil(pace / 20));
    for (let at = 0; at < chunk.length; at += step) {
      const piece = chunk.subarray(at, at + step);
      if (pace !== null) await sleep((piece.length / pace) * 1000, undefined, { signal });
      passed += piece.length;
      if (limit !== null && passed >= limit) {
        yield piece.subarray(0, piece.length - (passed - limit));
        cutConnection(wire);
      }
      yield piece;
    }
  }
}

async function* requestBody(wire: Wire): AsyncGenerator<Buffer> {
  const { message, response, entry } = wire;
  if (wire.awaitsContinue) response.writeContinue();
  wire.awaitsContinue = false;
  for await (const chunk of hasRequestBody(message) ? underFault(wire, message) : message) {
    entry.requestBytes += chunk.length;
    yield chunk;
  }
}

/** The whole body, kept: what the rules then read does not depend on the client any more. */
async function keptBody(wire: Wire): Promise<readonly Buffer[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of requestBody(wire)) chunks.push(chunk);
  return chunks;
}

async function* replay(chunks: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks;
}

/** Ends the connection in good order, which a reader sees as the end of the body. */
function endEarly({ message }: Wire): never {
  message.socket.end();
  throw new ConnectionLost();
}

async function writeForeign(wire: Wire, answer: ForeignAnswer): Promise<never> {
  const { message, response, entry } = wire;
  entry.status = answer.status;
  const type = answer.contentType ?? 'text/html';
  // The connection ends after it, so a client must not send its next request on it.
  const length = answer.unended
    ? {}
    : { 'content-length': Buffer.byteLength(answer.body), connection: 'close' };
  const tag = { ...answer.headers, ...(answer.etag === undefined ? {} : { etag: answer.etag }) };
  response.writeHead(answer.status, { 'content-type': type, ...length, ...tag });
  if (!answer.unended) {
    await new Promise<void>((resolve) => response.end(answer.body, resolve));
    throw new ConnectionLost();
  }
  await new Promise<void>((resolve) => response.write(answer.body, () => resolve()));
  message.socket.end();
  throw new ConnectionLost();
}

async function writeAnswer(wire: Wire, answer: S3Response): Promise<void> {
  const { message, response, entry, signal } = wire;
  const chunks = typeof answer.body === 'string' ? [Buffer.from(answer.body)] : (answer.body ?? []);
  const headers: Record<string, string> = {
    server: 'AmazonS3',
    'x-amz-request-id': entry.id,
    'x-amz-id-2': 'sluice-test',
    ...(typeof answer.body === 'string' ? { 'content-type': 'application/xml' } : {}),
  };
  if (answer.status !== 204 && answer.status !== 304) {
    headers['content-length'] = String(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  }
  for (const [name, value] of Object.entries(answer.headers ?? {})) {
    if (value === undefined) Reflect.deleteProperty(headers, name);
    else headers[name] = Buffer.from(value, 'utf8').toString('latin1');
  }
  // A client that did not get 100 Continue may or may not send its body: the connection cannot be used again.
  if (wire.awaitsContinue) headers.connection = 'close';
  response.writeHead(answer.status, headers);
  entry.status = answer.status;
  const cut = wire.effect && 'cutBodyAfterBytes' in wire.effect ? wire.effect : null;
  if (cut && message.method !== 'HEAD') {
    const piece = Buffer.concat(chunks).subarray(0, cut.cutBodyAfterBytes);
    response.flushHeaders();
    if (piece.length > 0) {
      await new Promise<void>((resolve) => response.write(piece, () => resolve()));
    }
    endEarly(wire);
  }
  if (message.method !== 'HEAD') {
    for await (const piece of hasRequestBody(message) ? chunks : underFault(wire, chunks)) {
      entry.responseBytes += piece.length;
      if (!response.write(piece)) await once(response, 'drain', { signal });
    }
  }
  // Node itself takes what is left of the request's body, so the client gets to read the answer.
  response.end();
}

function errorAnswer(
  entry: RequestLogEntry,
  resource: string,
  error: {
    code: string;
    status: number;
    message: string;
    details?: Record<string, string>;
    headers?: Record<string, string>;
  },
): S3Response {
  entry.code = error.code;
  const document = errorDocument({
    code: error.code,
    message: error.message,
    details: error.details ?? {},
    resource,
    requestId: entry.id,
  });
  const isSilent = entry.method === 'HEAD' || error.status === 304;
  return {
    status: error.status,
    ...(error.headers ? { headers: error.headers } : {}),
    ...(isSilent ? {} : { body: document }),
  };
}

function asS3Error(error: unknown): S3Error {
  if (error instanceof S3Error) return error;
  // A fault of this server: report it to the author of the test.
  console.error('s3-server:', error);
  return new S3Error('InternalError');
}

async function work(wire: Wire, request: S3Request, state: ServerState): Promise<S3Response> {
  const authenticated = authenticate(request, state);
  obeyPolicy(request, state.quirks);
  const effect = state.faults.effectOn(request);
  wire.effect = effect;
  if (effect) {
    wire.entry.fault = nameOf(effect);
    if ('status' in effect) {
      const message = effect.message ?? messageOf(effect.code);
      return errorAnswer(wire.entry, request.path, { ...effect, message });
    }
    if ('delayMs' in effect && !effect.outlivesClient) {
      await sleep(effect.delayMs, undefined, { signal: wire.signal });
    }
    if ('foreignAnswer' in effect) {
      for await (const _ of requestBody(wire));
      await writeForeign(wire, effect.foreignAnswer);
    }
    if ('halfOpen' in effect) await closed(wire);
    if ('okWithError' in effect) {
      for await (const _ of requestBody(wire));
      const message = messageOf(effect.okWithError);
      return errorAnswer(wire.entry, request.path, {
        code: effect.okWithError,
        status: 200,
        message,
      });
    }
  }
  const kept = effect && 'delayMs' in effect && effect.outlivesClient ? await keptBody(wire) : null;
  if (kept && effect && 'delayMs' in effect) {
    await sleep(effect.delayMs, undefined, { ref: false });
  }
  const source = () => (kept ? replay(kept) : requestBody(wire));
  const context: Context = {
    ...state,
    request,
    readBody: () => readBody(request, authenticated, source()),
    readXmlBody: async () => {
      const body = await readBody(request, authenticated, source(), { ignoreChecksums: true });
      return Buffer.concat(body.chunks).toString('utf8');
    },
  };
  const answer = await handlers[request.operation](context);
  if (effect && 'loseResponse' in effect) cutConnection(wire);
  return answer;
}

/** Returns only when the connection ends. */
async function closed({ signal }: Wire): Promise<never> {
  if (!signal.aborted) {
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  }
  throw new ConnectionLost();
}

/** Serves one request to its end. Never throws. */
export async function serveRequest(
  state: ServerState,
  message: IncomingMessage,
  response: ServerResponse,
  awaitsContinue: boolean,
): Promise<void> {
  const request = parseRequest(message, { id: state.nextRequestId(), receivedAt: state.now() });
  // By the clock that judges signatures.
  response.setHeader('date', httpTime(state.now()));
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const entry: RequestLogEntry = {
    id: request?.id ?? '',
    method: message.method ?? '',
    operation: request?.operation ?? 'Unknown',
    bucket: request?.bucket,
    key: request?.key,
    status: null,
    code: undefined,
    requestBytes: 0,
    responseBytes: 0,
    fault: undefined,
  };
  state.log(entry);
  const wire: Wire = {
    message,
    response,
    awaitsContinue,
    entry,
    effect: null,
    signal: gone.signal,
  };
  try {
    let answer: S3Response;
    try {
      if (!request)
        throw new S3Error('InvalidRequest', { message: "Couldn't parse the specified URI." });
      answer = await work(wire, request, state);
    } catch (error) {
      if (gone.signal.aborted || error instanceof ConnectionLost) throw error;
      const refusal = asS3Error(error);
      answer = errorAnswer(entry, request?.path ?? '', refusal);
      const isMissing = refusal.code === 'NoSuchKey';
      if (isMissing && state.quirks.missingObject === 'empty') answer = { status: 404, body: [] };
    }
    await writeAnswer(wire, disguise(state.quirks, answer, message.method));
  } catch (error) {
    if (!gone.signal.aborted && !(error instanceof ConnectionLost)) asS3Error(error);
    // Null if the client disconnected first.
    (message.socket as Socket | null)?.destroy();
  }
}
