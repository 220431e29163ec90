import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { eventsModel } from '../../../foundation/domain/events-model.ts';
import type { Description, Source, SourceRequest } from '../source.ts';
import { beginReading, type SnapshotOptions } from './begin-snapshot.ts';
import type { ConnectionLimit } from './connection-limit.ts';
import {
  closeConnection,
  connect,
  describeColumns,
  destroyConnection,
  serverVersionOf,
  withAbort,
} from './connection.ts';
import { findCulprit } from './culprit.ts';
import { findExcessRights } from './excess-rights.ts';
import { explain } from './explain.ts';
import { type HeldSessions, watchHeldLocks } from './held-locks.ts';
import { type InspectedServers, inspectSource } from './inspect.ts';
import { JointSnapshots } from './joint-snapshots.ts';
import { KeptConnections } from './kept-connections.ts';
import { haveRowsChanged, lookAgain } from './late-rows.ts';
import { planModels, type PlanSelect } from './plan.ts';
import type { HoldRow } from './read-slice.ts';
import { recallSettled, renewSettled } from './recall-settled.ts';
import { recheckInterval, settleInterval } from './settle.ts';
import { SharedServer } from './shared-server.ts';
import { Conflicts, openShortReads } from './short-reads.ts';
import { openSnapshot } from './snapshot.ts';
import { tryRow } from './try-row.ts';

export interface PostgresSourceOptions {
  readonly place?: string;
  readonly connectionString: string;
  /** The settings that the two addresses are from, for errors. */
  readonly addressName?: string | undefined;
  readonly primaryName?: string | undefined;
  /** The primary, if the database above is a standby: settling happens there. */
  readonly primaryUrl?: string | null;
  /** Whether a standby without its primary may be exported, unsettled; default false. */
  readonly allowUnsettledStandby?: boolean;
  /** Shown in `pg_stat_activity`. */
  readonly applicationName?: string;
  /** Makes the SQL of a request: `planModels` of the models; default: of `events`. */
  readonly plan?: PlanSelect;
  /** Maximum time of `settle`; 5 minutes. */
  readonly settleTimeoutMs?: number;
  readonly settlePollMs?: number;
  /** Called each time that settling looks at a server; many intervals may share a look. */
  readonly onSettleLook?: () => void;
  /** How long a connection stays open for the next use; default 0. */
  readonly keepConnectionMs?: number;
  /**
   * If the role cannot see other roles' times: how long after the wait an interval is checked again;
   * default `settleTimeoutMs`.
   */
  readonly unseenMs?: number;
  /** How much of the interval column one read covers; 10 minutes. */
  readonly sliceMs?: number;
  /** Size of a row block; 256 KiB. Encoding one blocks the event loop for about 2 ms. */
  readonly blockBytes?: number;
  /** Maximum row size, and so maximum field size; 64 MiB. */
  readonly maxRowBytes?: number;
  /** Waits until there is memory for a row of a few MiB or more; the function gives it back. */
  readonly holdRow?: HoldRow;
  /** For snapshots; default: no limit. */
  readonly connections?: ConnectionLimit;
  readonly connectTimeoutMs?: number;
  /** Maximum time of one statement, including reading a slice; 1 hour. */
  readonly statementTimeoutMs?: number;
  /** How long the server may be silent although it has nothing to do; 150 seconds. */
  readonly silenceMs?: number;
  /** Maximum pause between two statements of a run; 10 minutes. */
  readonly idleTimeoutMs?: number;
  /** How long a session may wait for a table that a run reads; 5 seconds. */
  readonly lockWaitMs?: number;
  /** Maximum age of a snapshot; 24 hours. */
  readonly snapshotMs?: number;
}

/** Maximum number of idle connections that are kept for snapshots. */
const mostKept = 16;
/** Maximum time of one look at a server. */
const lookPatienceMs = 30_000;

/** Exports a PostgreSQL database. Opens connections only while a method or a snapshot needs them. */
export function createPostgresSource(given: PostgresSourceOptions): Source {
  const options = {
    applicationName: 'sluice-export',
    settleTimeoutMs: 300_000,
    settlePollMs: 250,
    onSettleLook: () => {},
    keepConnectionMs: 0,
    sliceMs: 600_000,
    blockBytes: 256 * 1024,
    maxRowBytes: 64 * 2 ** 20,
    connectTimeoutMs: 10_000,
    statementTimeoutMs: 3_600_000,
    idleTimeoutMs: 600_000,
    lockWaitMs: 5_000,
    snapshotMs: 86_400_000,
    plan: planModels([eventsModel]),
    manyTies: new Set<string>(),
    guardedViews: new Set<string>(),
    ...given,
  };
  const times = {
    timeoutMs: options.settleTimeoutMs,
    pollMs: options.settlePollMs,
    unseenMs: given.unseenMs ?? options.settleTimeoutMs,
  };
  const { primaryUrl = null, allowUnsettledStandby: allowsStandby = false } = given;
  /** Connects for one piece of work. After an abort its reason is thrown, not the error that it caused. */
  const connected = async <T>(
    address: Address,
    signal: AbortSignal,
    work: (client: pg.Client) => Promise<T>,
  ): Promise<T> => {
    const { applicationName, connectTimeoutMs } = options;
    const client = await connect({ ...address, applicationName, connectTimeoutMs }, signal);
    try {
      return await work(client);
    } catch (error) {
      signal.throwIfAborted();
      throw notOfQuery(error);
    } finally {
      await closeConnection(client);
    }
  };
  const { connectionString, addressName } = options;
  const source: Address = { connectionString, addressName };
  const primary: Address | null =
    primaryUrl === null ? null : { connectionString: primaryUrl, addressName: given.primaryName };
  const inspectServers = <T>(signal: AbortSignal, work: (found: InspectedServers) => Promise<T>) =>
    connected(source, signal, (client) =>
      work({
        client,
        allowsStandby,
        withPrimary: primary === null ? null : (withIt) => connected(primary, signal, withIt),
      }),
    );
  const shareServer = (address: Address) =>
    new SharedServer({
      connect: (signal) => {
        const { applicationName, connectTimeoutMs } = options;
        return connect({ ...address, applicationName, connectTimeoutMs }, signal);
      },
      pollMs: options.settlePollMs,
      keepMs: options.keepConnectionMs,
      patienceMs: lookPatienceMs,
      onLook: options.onSettleLook,
    });
  const servers = {
    source: shareServer(source),
    primary: primary === null ? null : shareServer(primary),
    allowsStandby,
  };
  const conflicts = new Conflicts();
  const watched = {
    ...options,
    watchHeld: (sessions: HeldSessions) => watchHeldLocks(servers.source, options, sessions),
  };
  const reading = {
    ...watched,
    kept: new KeptConnections(options.keepConnectionMs, mostKept),
    settledAt: () => servers.source.serverStart,
    conflicts,
  };
  const joint = new JointSnapshots(reading, options.plan);
  const open: Source['open'] = async (request, signal, position = null, server = null) => {
    const settled = { position, server };
    const { plan } = options;
    const mayBeShort = request.select !== 'keys';
    try {
      if (mayBeShort && conflicts.has(request.model)) {
        return await openShortReads({ options: reading, plan, request, settled }, signal);
      }
      return await openSnapshot(reading, plan, request, settled, signal);
    } catch (error) {
      signal.throwIfAborted();
      const found = await findCulprit(error, watched, plan, request, signal);
      if (found.code !== 'source.recovery_conflict' || conflicts.has(request.model)) throw found;
      conflicts.note(request.model);
      if (!mayBeShort) throw found;
      return openShortReads({ options: reading, plan, request, settled }, signal);
    }
  };
  const describe: Source['describe'] = (request, signal) =>
    describeRequest(watched, options.plan, request, signal);
  return {
    ...(given.place !== undefined && { place: given.place }),
    settle: (interval, signal, waitedMs = 0, databaseMs = Number.NEGATIVE_INFINITY, onWait) => {
      // Not 0 unless it was: then what is pending would not be remembered as late.
      const timeoutMs = Math.max(times.timeoutMs - waitedMs, Math.min(1, times.timeoutMs));
      const patience = { ...times, timeoutMs, ...(onWait && { onWait }) };
      return withReason(signal, settleInterval(servers, interval, patience, signal, databaseMs));
    },
    recall: (interval, requestedAt, databaseMs) => {
      const found = recallSettled(servers, interval, requestedAt);
      if (found && databaseMs !== undefined)
        void renewSettled(servers, interval, times, databaseMs);
      return found;
    },
    recheck: (interval, pending, signal) =>
      withReason(signal, recheckInterval(servers, interval, pending, times, signal)),
    lookAgain: (request, earlier, position, signal, server = null) =>
      lookAgain(
        { options: watched, plan: options.plan, request },
        earlier,
        { position, server },
        signal,
      ),
    hasChanged: (request, earlier, signal) =>
      haveRowsChanged({ options: watched, plan: options.plan, request }, earlier, signal),
    findElsewhere: (request, keys, signal) =>
      findElsewhere(reading, options.plan, request, keys, signal),
    open,
    openSmall: async (request, signal, maxBytes, position = null, server = null) => {
      const isAlone = position !== null || request.select === 'keys';
      const asked = { request, signal, maxBytes, server };
      const opened = isAlone ? null : await joint.open(asked);
      return opened ?? open(request, signal, position, server);
    },
    describe,
    tryRow: (name, tenantKey, ofOthers, signal) => {
      const planned = { options: reading, plan: options.plan };
      return tryRow({ describe, open }, planned, { name, tenantKey, ofOthers }, signal);
    },
    findExcessRights: (signal) =>
      connected(source, signal, (client) => findExcessRights(client, signal)),
    inspect: (signal) => inspectServers(signal, (found) => inspectSource(found, signal)),
  };
}

/** After an abort its reason is thrown, not the error that it caused. */
async function withReason<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    signal.throwIfAborted();
    throw notOfQuery(error);
  }
}

/** A server, and the setting that names it. */
interface Address {
  readonly connectionString: string;
  readonly addressName: string | undefined;
}

/** Our own statements read no query of a customer: what the server lacks is the operator's. */
function notOfQuery(error: unknown): unknown {
  if (!(error instanceof SluiceError) || error.code !== 'query.invalid') return error;
  return new SluiceError('source.unsupported', error.detail, error);
}

/**
 * The columns of a request's rows. The server parses and plans the statement that would read them, and checks
 * the role's rights; it runs nothing.
 *
 * @throws SluiceError that names what is wrong: the query, the event filters or the model
 */
async function describeRequest(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<Description> {
  try {
    return await explain(options, plan, request, signal);
  } catch (error) {
    throw await findCulprit(error, options, plan, request, signal);
  }
}

/** The keys of those rows of the tenant that have one of `keys` outside the request's interval. Throws SluiceError. */
async function findElsewhere(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  keys: readonly (readonly (string | null)[])[],
  signal: AbortSignal,
): Promise<readonly (readonly (string | null)[])[]> {
  if (keys.length === 0) return [];
  const { relation, describeSql, select } = plan({ ...request, select: 'keys' });
  const client = await beginReading(options, request.tenantKey, relation, signal);
  try {
    const described = await describeColumns(client, describeSql, signal);
    const { columns, elsewhereSql } = select(described, serverVersionOf(client));
    if (columns.length === 0 || !elsewhereSql) return [];
    const text = elsewhereSql(request.interval, keys);
    const { rows } = await withAbort(client, signal, () =>
      client.query<(string | null)[]>({ text, rowMode: 'array' } satisfies pg.QueryArrayConfig),
    );
    return rows;
  } catch (error) {
    destroyConnection(client);
    signal.throwIfAborted();
    throw await findCulprit(error, options, plan, request, signal);
  } finally {
    destroyConnection(client);
  }
}
