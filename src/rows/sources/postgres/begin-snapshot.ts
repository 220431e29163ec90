import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import {
  closeConnection,
  type ConnectionOptions,
  connect,
  destroyConnection,
  encodingOf,
  limitWork,
  noAnswer,
  runBatch,
} from './connection.ts';
import { toSourceError } from './errors.ts';
import type { HeldSessions } from './held-locks.ts';
import type { KeptConnections } from './kept-connections.ts';
import { type ReadRelation, rowSecuritySql } from './hidden-rows.ts';
import { limitSqls } from './own-statement.ts';
import { hasReplayed } from './replay.ts';
import { type Reader, setUpSql } from './session-settings.ts';
import type { BatchAnswer, BatchStatement } from './statement-batch.ts';
import { within } from '../../../foundation/domain/patience.ts';
import { type ClientOptions, connectionOf, connectTimeoutOf, newClient } from './client.ts';

/** A transaction that reads no rows of an export needs these alone. */
export interface TransactionOptions extends ConnectionOptions {
  readonly statementTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Of a server that has nothing to do; default 150 seconds: a pooler may wait 120 for a server. */
  readonly silenceMs?: number;
  /** Where the connections of snapshots come from and go to; default: a new one each. */
  readonly kept?: KeptConnections;
  /** It returns what ends the watch; default: the snapshot is not watched. */
  readonly watchHeld?: (sessions: HeldSessions) => () => void;
  /** The start of the server that settled last; null if it is not known. */
  readonly settledAt?: () => string | null;
}

export interface SnapshotOptions extends TransactionOptions {
  readonly blockBytes: number;
  /** A larger row is refused before it is held, and so is a larger field. */
  readonly maxRowBytes: number;
  /** Waits until a row of a few MiB or more may be held; returns what to call once it is not. It throws on abort. */
  readonly holdRow?: (bytes: number, signal: AbortSignal) => Promise<() => void>;
  readonly sliceMs: number;
  /** Gets the models whose reads a standby has ended. */
  readonly conflicts?: { note(model: string): void };
  /** Gets the models with views over tables that have policies. */
  readonly guardedViews?: Set<string>;
}

/** One piece of work in a transaction with its own snapshot. @param relation whose rows are read; null: none are */
export async function inSnapshot<T>(
  options: TransactionOptions,
  tenantKey: string,
  relation: ReadRelation | null,
  signal: AbortSignal,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const rowSecurity = relation && { rowSecurity: rowSecuritySql([relation], true) };
  const { client } = await begin(options, { tenantKey, ...rowSecurity }, nowhere, [], signal);
  try {
    return await work(client);
  } finally {
    await closeConnection(client);
  }
}

/** The server at which an interval settled: its rows are read there, or at a standby that has them all. */
export interface SettledAt {
  /** The position that a standby must have replayed before; one address may lead to several standbys. */
  readonly position: string | null;
  /** The start of the server that was waited for; null if it is not known, or is not the one that is read. */
  readonly server: string | null;
}

export const nowhere: SettledAt = { position: null, server: null };

/** Its own snapshot, or an exported one. */
export type View = SettledAt | { readonly snapshot: string; readonly server: string };

interface Begun {
  readonly client: pg.Client;
  readonly snapshot: string;
  readonly serverStart: string;
  /** A moment before the snapshot was taken, by the server's clock. Of an exported snapshot: when it was taken over. */
  readonly takenAt: Instant;
  readonly pid: number;
  readonly answers: readonly BatchAnswer[];
}

/**
 * Settings, snapshot and `more` are one round trip. A kept connection is replaced if it is lost, or leads to another
 * server than the one that settled: it may be from before a failover.
 * @throws SluiceError `source.unavailable` if another server answers than the one that settled
 */
export async function begin(
  options: TransactionOptions,
  reader: Reader,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
): Promise<Begun> {
  const kept = 'snapshot' in view ? null : (options.kept?.take() ?? null);
  const { server } = view;
  if (kept) {
    const { connectTimeoutMs } = options;
    const begun = await beginOn(kept, options, reader, view, more, signal, connectTimeoutMs).catch(
      (error) => {
        if (toSourceError(error).code !== 'source.unavailable' || signal.aborted) throw error;
        return null;
      },
    );
    const last = server ?? options.settledAt?.() ?? null;
    if (begun && (last === null || begun.serverStart === last)) return begun;
    destroyConnection(kept);
  }
  const begun = await beginOn(await connect(options, signal), options, reader, view, more, signal);
  if (server === null || begun.serverStart === server) return begun;
  destroyConnection(begun.client);
  throw new SluiceError('source.unavailable', 'another server answers than the one that settled');
}

async function beginOn(
  client: pg.Client,
  options: TransactionOptions,
  reader: Reader,
  view: View,
  more: readonly BatchStatement[],
  signal: AbortSignal,
  answerMs: number | null = null,
): Promise<Begun> {
  const { silenceMs = 150_000 } = options;
  const pids: number[] = [];
  limitWork(client, options.statementTimeoutMs + silenceMs, (onEnd) => {
    const endLook = watchSilence(options, silenceMs, () => onEnd(noAnswer()));
    const endWatch = options.watchHeld?.({ pids: () => pids, onExcess: onEnd });
    return () => {
      endLook();
      endWatch?.();
    };
  });
  const before = [
    { sql: 'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY' },
    ...limitSqls(client, options.statementTimeoutMs).map((sql) => ({ sql })),
    ...('snapshot' in view ? [{ sql: `SET TRANSACTION SNAPSHOT '${view.snapshot}'` }] : []),
  ];
  const position = 'position' in view ? view.position : null;
  try {
    if (encodingOf(client) === 'SQL_ASCII') {
      const detail = 'its encoding is SQL_ASCII, so the encoding of its text is unknown';
      throw new SluiceError('source.unsupported', detail);
    }
    // By itself: a statement's snapshot is older than anything that the statement finds out.
    if (position !== null && !(await hasReplayed(client, position, signal))) {
      throw new SluiceError('source.unavailable', 'the standby is behind the one that was settled');
    }
    const statements = [...before, { sql: setUpSql(options.idleTimeoutMs, reader) }, ...more];
    // Of the settings. What follows may take long, and others may wait for its locks.
    const early = {
      index: before.length,
      answerMs: answerMs ?? silenceMs,
      onAnswer: ({ rows: [row] }: BatchAnswer) => {
        pids.push(Number(row?.[2]));
      },
    };
    const answers = await runBatch(client, statements, signal, early);
    const [snapshot, serverStart, pid, takenAt] = answers[before.length]?.rows[0] ?? [];
    if (!snapshot || !serverStart) {
      throw new SluiceError('source.unavailable', 'the server gave no snapshot');
    }
    return {
      client,
      snapshot,
      serverStart,
      // Rounded down: still before it.
      takenAt: Math.floor(Number(takenAt) * 1_000),
      pid: Number(pid),
      answers: answers.slice(before.length + 1),
    };
  } catch (error) {
    destroyConnection(client);
    throw error;
  }
}

/** So many looks in a row without an answer: one may meet a server that is busy. */
const maxUnanswered = 3;

/**
 * A frozen server, or one that is cut off without a reset, does not answer a new connection; one that sorts does. @param
 * onSilent called once, if no look was answered @returns ends the watch
 */
function watchSilence(options: ClientOptions, silenceMs: number, onSilent: () => void): () => void {
  let isOver = false;
  let unanswered = 0;
  const look = async () => {
    unanswered = (await answers(options)) ? 0 : unanswered + 1;
    if (isOver) return;
    if (unanswered < maxUnanswered) timer = setTimeout(look, silenceMs / 5);
    else onSilent();
  };
  let timer = setTimeout(look, silenceMs);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Says whether anything comes of a new connection within its time: a login, a refusal, a reset. */
async function answers(options: ClientOptions) {
  const client = newClient({ ...options, connectTimeoutMs: 0 });
  client.on('error', () => {});
  const connected = client.connect().then(
    () => true,
    () => true,
  );
  const isAnswered = await within(connectTimeoutOf(options), connected, false);
  connectionOf(client).stream.destroy();
  return isAnswered;
}
