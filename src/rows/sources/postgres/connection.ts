import { createConnection, isIP, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type ConnectionOptions as ConnectionOptionsOfTls, connect as connectTls } from 'node:tls';
import type pg from 'pg';
import type { FieldDef } from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { BoundedMap } from '../../query/bounded-map.ts';
import { type ClientOptions, connectionOf, newClient } from './client.ts';
import type { DescribedColumn } from './column-types.ts';
import type { ConnectionLimit } from './connection-limit.ts';
import { serverErrorOf, toSourceError } from './errors.ts';
import { type BatchAnswer, type BatchStatement, StatementBatch } from './statement-batch.ts';

export interface ConnectionOptions extends ClientOptions {
  readonly addressName?: string | undefined;
  readonly connections?: ConnectionLimit;
  /** The wait for others to end if the server, the database or the role has no session left; default 0. */
  readonly roomMs?: number;
}

const roomRetryMs = 300;

/** A connection whose loss is reported by the next query, not by an event. */
export async function connect(options: ConnectionOptions, signal: AbortSignal): Promise<pg.Client> {
  const begun = performance.now();
  for (;;) {
    try {
      return await connectOnce(options, signal);
    } catch (error) {
      const isFull = serverErrorOf(error)?.code === '53300';
      if (!isFull || performance.now() - begun > (options.roomMs ?? 0)) throw error;
    }
    // Others ask at the same moment.
    await delay(roomRetryMs * (0.5 + Math.random()));
  }
}

async function connectOnce(options: ConnectionOptions, signal: AbortSignal): Promise<pg.Client> {
  signal.throwIfAborted();
  const leave = await options.connections?.enter(signal);
  const client = newClient(options);
  const facts = factsOf(client);
  // Without a listener the loss of an idle connection would end the process.
  client.on('error', (error) => {
    if (serverErrorOf(error)) facts.ending = error;
  });
  // A connection that was cut is open at the server until its cancel request was taken.
  if (leave) client.once('end', () => void (facts.cancel ?? Promise.resolve()).then(leave));
  connectionOf(client).on('parameterStatus', (message: ParameterStatus) => {
    if (message.parameterName === 'server_encoding') facts.encoding = message.parameterValue;
    if (message.parameterName === 'server_version') facts.version = message.parameterValue;
  });
  let isAccepted = false;
  connectionOf(client).stream.once('connect', () => {
    isAccepted = true;
  });
  try {
    await withAbort(client, signal, () => client.connect());
  } catch (error) {
    signal.throwIfAborted();
    throw nameAddress(toSourceError(error), client, options.addressName, isAccepted);
  }
  return client;
}

function nameAddress(
  error: SluiceError,
  { user, database }: pg.Client,
  name: string | undefined,
  isAccepted: boolean,
): SluiceError {
  const state = serverErrorOf(error)?.code;
  const setting = name === undefined ? '' : `${name}: `;
  if (state === '42501') {
    const detail = `${setting}the role ${user} may not connect to the database. GRANT CONNECT ON DATABASE ${database} TO ${user}`;
    return new SluiceError('source.access_refused', detail, error);
  }
  if (error.code === 'source.unavailable' && state === undefined) {
    const reason = error.detail === undefined ? '' : ` (${error.detail})`;
    const detail = isAccepted
      ? `${setting}what listens at its address let no session in${reason}. A server may be starting, or a pooler may not reach its server. If it persists, look at its log`
      : `${setting}no server answers at its address${reason}. If it persists, correct host and port`;
    return new SluiceError('source.unavailable', detail, error);
  }
  if (state === undefined && error.code !== 'source.access_refused') return error;
  const code =
    error.code === 'source.failed' && state === 'XX000' ? 'source.access_refused' : error.code;
  return new SluiceError(code, `${setting}${error.detail}`, error);
}

interface ConnectionFacts {
  encoding?: string;
  version?: string;
  /** Why the server ended a session that executed nothing: the statement after it only finds the connection closed. */
  ending?: Error;
  /** The cancel request of a connection that was cut. It ends when the server has taken it. */
  cancel?: Promise<void>;
  limit?: WorkLimit;
}

const allFacts = new WeakMap<pg.Client, ConnectionFacts>();

function factsOf(client: pg.Client): ConnectionFacts {
  const facts = allFacts.get(client) ?? {};
  allFacts.set(client, facts);
  return facts;
}

interface ParameterStatus {
  readonly parameterName: string;
  readonly parameterValue: string;
}

export const encodingOf = (client: pg.Client): string | undefined => factsOf(client).encoding;

export function serverVersionOf(client: pg.Client): number | null {
  const major = Number.parseInt(factsOf(client).version ?? '', 10);
  return Number.isNaN(major) ? null : major;
}

/** Says whether the process lives on for this connection: not if it is idle. */
export function keepsAlive(client: pg.Client, does: boolean): void {
  const socket = connectionOf(client).stream as unknown as Socket;
  if (does) socket.ref();
  else socket.unref();
}

/**
 * A server in the middle of a scan or a sort does not notice an end, so it gets a cancel request first.
 * @param cancelMs until the request is taken, in all: what answers byte by byte is never silent
 */
export function destroyConnection(client: pg.Client, cancelMs = usualCancelMs): void {
  const { stream } = connectionOf(client);
  const facts = factsOf(client);
  if (stream.destroyed || facts.cancel) return;
  const { processID, secretKey, ssl, sslNegotiation } = client as unknown as SessionFacts;
  if (processID === null || secretKey === null) {
    stream.destroy();
    return;
  }
  stream.pause();
  const request = Buffer.alloc(16);
  [request.length, CANCEL_REQUEST, processID, secretKey].forEach((word, index) => {
    request.writeInt32BE(word, index * 4);
  });
  const socket = client.host.startsWith('/')
    ? createConnection(`${client.host}/.s.PGSQL.${client.port}`)
    : createConnection(client.port, client.host);
  const overdue = setTimeout(() => socket.destroy(), cancelMs);
  socket.on('error', () => {});
  const cut = () => void stream.destroy();
  const timer = setTimeout(cut, CUT_AFTER_MS);
  const taken = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  facts.cancel = taken;
  void taken.then(() => {
    clearTimeout(overdue);
    clearTimeout(timer);
    cut();
  });
  // The other side ends it once it has the request: a pooler that sees an end before drops it.
  if (!ssl) socket.write(request);
  else if (sslNegotiation === 'direct')
    socket.once('connect', () => encrypt(socket, client, ssl, request));
  else {
    socket.write(SSL_REQUEST);
    socket.once('data', (answer) => {
      if (answer.toString('latin1') === 'S') encrypt(socket, client, ssl, request);
      else socket.destroy();
    });
  }
}

/** The key of a request may end any statement of its session, so it goes only to the server that the client trusts. */
function encrypt(
  socket: Socket,
  { host }: pg.Client,
  ssl: true | ConnectionOptionsOfTls,
  request: Buffer,
): void {
  const choice = ssl === true ? {} : ssl;
  // pg does the same: an address has no name.
  const name = isIP(host) === 0 ? { servername: host } : {};
  // The key of a client's certificate is not enumerable there.
  const key = 'key' in choice ? { key: choice.key } : {};
  const encrypted = connectTls({
    ...choice,
    ...key,
    ...name,
    socket,
    host,
    ALPNProtocols: ['postgresql'],
  });
  encrypted.on('error', () => socket.destroy());
  encrypted.once('secureConnect', () => encrypted.write(request));
}

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** The client of pg has them, and its types do not. */
interface SessionFacts {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly ssl: boolean | ConnectionOptionsOfTls;
  readonly sslNegotiation: string;
}

/** The code of the protocol's CancelRequest, which uses its own connection without login. */
const CANCEL_REQUEST = 80_877_102;
const usualCancelMs = 5_000;
/** A server that takes no cancel request by then may be gone. */
const CUT_AFTER_MS = 1_000;

export async function closeConnection(client: pg.Client): Promise<void> {
  const cut = setTimeout(() => destroyConnection(client), 2_000);
  try {
    await client.end();
  } catch {
    // The connection was already lost.
  } finally {
    clearTimeout(cut);
  }
}

/** An abort closes the connection and rejects with the signal's reason. */
export async function query<Row extends pg.QueryResultRow>(
  client: pg.Client,
  text: string,
  signal: AbortSignal,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return withAbort(client, signal, async () => {
    // A text without values may have several statements; only the last result matters.
    const result = await client.query<Row>(values.length ? { text, values: [...values] } : text);
    const last = Array.isArray(result) ? (result.at(-1) as pg.QueryResult<Row>) : result;
    return last.rows;
  });
}

/** In one round trip. An abort closes the connection and rejects with the signal's reason. */
export async function runBatch(
  client: pg.Client,
  statements: readonly BatchStatement[],
  signal: AbortSignal,
  early: EarlyAnswer | null = null,
): Promise<readonly BatchAnswer[]> {
  return withAbort(client, signal, async () => {
    const timer = early && setTimeout(() => destroyConnection(client), early.answerMs);
    const flush = early && {
      index: early.index,
      onAnswer: (answer: BatchAnswer) => {
        clearTimeout(timer ?? undefined);
        early.onAnswer(answer);
      },
    };
    const batch = new StatementBatch(statements, flush);
    try {
      client.query(batch);
      return await batch.answers;
    } finally {
      clearTimeout(timer ?? undefined);
    }
  });
}

interface EarlyAnswer {
  readonly index: number;
  /** If the server has not answered by then, the connection is lost. */
  readonly answerMs: number;
  onAnswer(answer: BatchAnswer): void;
}

export async function describeColumns(
  client: pg.Client,
  sql: string,
  signal: AbortSignal,
): Promise<readonly DescribedColumn[]> {
  const [answer] = await runBatch(client, [{ sql, describeOnly: true }], signal);
  return nameColumns(client, answer?.fields ?? [], signal);
}

/** From here on types are made by users: their names can change. */
const firstUserOid = 16_384;
/** Names of built-in types by OID and modifier: the same on every server. */
const typeNames = new BoundedMap<string, NamedType>(1_000);

type NamedType = Pick<DescribedColumn, 'sourceType' | 'isComposite'>;

/** Adds the server's names of the types, asked for only if one is new. */
export async function nameColumns(
  client: pg.Client,
  fields: readonly FieldDef[],
  signal: AbortSignal,
): Promise<readonly DescribedColumn[]> {
  const typeOf = ({ dataTypeID, dataTypeModifier }: FieldDef) =>
    `${dataTypeID} ${dataTypeModifier}`;
  const names = new Map<string, NamedType>();
  const unknown = fields.filter((field) => {
    const name = typeNames.get(typeOf(field));
    if (name !== undefined) names.set(typeOf(field), name);
    return name === undefined;
  });
  if (unknown.length > 0) {
    const types = await query<{ name: string; composite: boolean | null }>(
      client,
      // With its schema, whatever the search path is.
      `SELECT CASE WHEN n.nspname <> 'pg_catalog'
                    AND pg_catalog.pg_type_is_visible(CASE y.typcategory WHEN 'A' THEN y.typelem ELSE y.oid END)
                   THEN pg_catalog.quote_ident(n.nspname) || '.' ELSE '' END || pg_catalog.format_type(t, m) AS name,
              y.typtype = 'c' AS composite
         FROM ROWS FROM (pg_catalog.unnest($1::oid[]), pg_catalog.unnest($2::int[])) WITH ORDINALITY AS f (t, m, position)
         LEFT JOIN pg_catalog.pg_type y ON y.oid = t
         LEFT JOIN pg_catalog.pg_namespace n ON n.oid = y.typnamespace ORDER BY position`,
      signal,
      [unknown.map((field) => field.dataTypeID), unknown.map((field) => field.dataTypeModifier)],
    );
    for (const [index, field] of unknown.entries()) {
      const { name = '', composite = null } = types[index] ?? {};
      const type = { sourceType: name, isComposite: composite === true };
      names.set(typeOf(field), type);
      if (field.dataTypeID < firstUserOid) typeNames.set(typeOf(field), type, 1);
    }
  }
  return fields.map((field) => ({
    name: field.name,
    typeOid: field.dataTypeID,
    ...(names.get(typeOf(field)) ?? { sourceType: '', isComposite: false }),
  }));
}

/** Maximum time of one piece of work on a connection, and what looks meanwhile whether it must end. */
interface WorkLimit {
  readonly ms: number;
  /** @param onEnd called with why it must; the function that it returns ends the watch */
  readonly watch: (onEnd: (reason: SluiceError) => void) => () => void;
}

/** A live server has ended the statement by then. If it answers no new connection, the connection is lost earlier. */
export function limitWork(client: pg.Client, ms: number, watch: WorkLimit['watch']): void {
  factsOf(client).limit = { ms: Math.min(ms, longestTimerMs), watch };
}

const longestTimerMs = 2 ** 31 - 1;

export const noAnswer = () => new SluiceError('source.unavailable', 'the server did not answer');

export async function withAbort<T>(
  client: pg.Client,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const destroy = () => destroyConnection(client);
  signal.addEventListener('abort', destroy, { once: true });
  const { limit } = factsOf(client);
  const ended: SluiceError[] = [];
  const cut = (reason: SluiceError) => {
    ended.push(reason);
    destroy();
  };
  const timer = limit && setTimeout(() => cut(noAnswer()), limit.ms);
  const endWatch = limit?.watch(cut);
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    const [reason] = ended;
    if (reason) throw new SluiceError(reason.code, reason.detail, error);
    const ending = serverErrorOf(error) ? null : factsOf(client).ending;
    throw toSourceError(ending ?? error);
  } finally {
    clearTimeout(timer);
    endWatch?.();
    signal.removeEventListener('abort', destroy);
  }
}
