import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { eventsModel } from '../../../foundation/domain/events-model.ts';
import {
  anyInterval,
  type SequenceReading,
  type Source,
  type SourceRequest,
  type SourceSnapshot,
} from '../source.ts';
import {
  type HoldLimits,
  KeptConnections,
  type PlannedRequest,
  type SnapshotOptions,
  watchHeldLocks,
} from './snapshot-connections.ts';
import { type ConnectionOptions, closeConnection, connect, query } from './connection.ts';
import { ConnectionLimit } from './connection-limit.ts';
import { findCulprit } from './culprit.ts';
import { findExcessRights } from './grants.ts';
import { explain } from './explain.ts';
import { type InspectedServers, inspectSource } from './inspect.ts';
import { inSnapshot } from './in-snapshot.ts';
import { JointSnapshots } from './joint-snapshots.ts';
import { findElsewhere, haveRowsChanged, lookAgain } from './late-rows.ts';
import type { Look } from './live-transactions.ts';
import { type PlanSelect, planModels } from './plan.ts';
import { openSince } from './sequence-point.ts';
import { type SettledServers, type SettleTimes, settleInterval } from './settle.ts';
import { SharedServer } from './shared-server.ts';
import { Conflicts, lookInParts, openShortReads } from './short-reads.ts';
import { openSnapshot } from './snapshot.ts';
import { tryRow } from './try-row.ts';

export interface PostgresSourceOptions
  extends Partial<Omit<SnapshotOptions, 'addressName'>>,
    Partial<HoldLimits> {
  readonly connectionString: string;
  readonly addressName?: string | undefined;
  readonly primaryName?: string | undefined;
  /** The primary, if the database above is a standby: settling happens there. */
  readonly primaryUrl?: string | null;
  /** Exported unsettled; default false. */
  readonly allowUnsettledStandby?: boolean;
  /** Makes the SQL of a request: `planModels` of the models; default: of `events`. */
  readonly plan?: PlanSelect;
  /** Maximum time of all waits of a run for its interval. */
  readonly settleTimeoutMs?: number;
  readonly settlePollMs?: number;
  /** Called each time that settling looks at a server; many intervals may share a look. */
  readonly onSettleLook?: () => void;
  /** Time for which a connection stays open for the next run; default 0: not at all. */
  readonly keepConnectionMs?: number;
  /** If other roles' times are hidden: when after the wait an interval is checked again; default `settleTimeoutMs`. */
  readonly unseenMs?: number;
  readonly smallOpens?: SmallOpens;
}

interface SmallOpens {
  /** Groups of one project that share a snapshot: each is opened and read at once. */
  readonly together: number;
  /** Requests that are opened alone have theirs until they are closed, so they never keep groups waiting. */
  readonly alone: number;
}

const mostKept = 16;
const lookPatienceMs = 30_000;

const defaults = {
  /** Shown in `pg_stat_activity`. */
  applicationName: 'sluice-export',
  settleTimeoutMs: 300_000,
  settlePollMs: 250,
  onSettleLook: () => {},
  keepConnectionMs: 0,
  sliceMs: 600_000,
  /** Encoding a block of this size blocks the event loop for about 2 ms. */
  blockBytes: 256 * 1024,
  maxRowBytes: 64 * 2 ** 20,
  connectTimeoutMs: 10_000,
  roomMs: 0,
  smallOpens: { together: Number.POSITIVE_INFINITY, alone: Number.POSITIVE_INFINITY },
  statementTimeoutMs: 3_600_000,
  idleTimeoutMs: 600_000,
  lockWaitMs: 5_000,
  snapshotMs: 86_400_000,
};

/** Exports a PostgreSQL database. Opens connections only while a method or a snapshot needs them. */
export const createPostgresSource = (given: PostgresSourceOptions): Source =>
  new PostgresSource(given);

class PostgresSource implements Source {
  readonly #plan: PlanSelect;
  readonly #times: Pick<SettleTimes, 'allowedMs' | 'pollMs' | 'unseenMs'>;
  readonly #source: Address;
  readonly #primary: Address | null;
  readonly #servers: SettledServers;
  readonly #connecting: Pick<ConnectionOptions, 'applicationName' | 'connectTimeoutMs' | 'roomMs'>;
  readonly #watched: SnapshotOptions;
  /** Reads as runs do: keeps connections, and notes what a standby ended. */
  readonly #reading: SnapshotOptions;
  readonly #conflicts = new Conflicts();
  readonly #joint: JointSnapshots;
  readonly #alone: ConnectionLimit;

  constructor(given: PostgresSourceOptions) {
    const plan = given.plan ?? planModels([eventsModel]);
    const shared = { guardedViews: new Set<string>(), culpritOf: findCulprit };
    const options = { ...defaults, ...shared, ...given };
    const { connectionString, addressName, settleTimeoutMs, settlePollMs } = options;
    const { primaryUrl = null, primaryName, unseenMs = settleTimeoutMs } = given;
    this.#plan = plan;
    this.#times = { allowedMs: settleTimeoutMs, pollMs: settlePollMs, unseenMs };
    this.#source = { connectionString, addressName };
    this.#primary =
      primaryUrl === null ? null : { connectionString: primaryUrl, addressName: primaryName };
    const { applicationName, connectTimeoutMs, roomMs, smallOpens } = options;
    this.#connecting = { applicationName, connectTimeoutMs, roomMs };
    const source = this.#shareServer(this.#source, options);
    this.#servers = {
      source,
      primary: this.#primary && this.#shareServer(this.#primary, options),
      allowsStandby: given.allowUnsettledStandby ?? false,
    };
    this.#watched = {
      ...options,
      watchHeld: (sessions) => watchHeldLocks(source, options, sessions),
    };
    this.#reading = {
      ...this.#watched,
      kept: new KeptConnections(options.keepConnectionMs, mostKept),
      settledAt: () => source.serverStart,
      conflicts: this.#conflicts,
    };
    const together = new ConnectionLimit(smallOpens.together);
    this.#joint = new JointSnapshots(this.#reading, plan, together);
    this.#alone = new ConnectionLimit(smallOpens.alone);
  }

  /** A server whose looks all intervals that settle there share. */
  #shareServer(address: Address, options: typeof defaults): SharedServer {
    return new SharedServer({
      connect: (signal) => connect({ ...address, ...this.#connecting }, signal),
      pollMs: options.settlePollMs,
      keepMs: options.keepConnectionMs,
      patienceMs: lookPatienceMs,
      onLook: options.onSettleLook,
    });
  }

  settle: Source['settle'] = (interval, signal, wait = {}) => {
    const { patienceMs = Number.POSITIVE_INFINITY, waitedMs = 0 } = wait;
    const { pending = null, onlyEnd = false } = wait;
    const leftMs = Math.max(0, this.#times.allowedMs - waitedMs);
    const times = { ...this.#times, waitedMs, patienceMs: Math.min(patienceMs, leftMs), onlyEnd };
    return withReason(signal, settleInterval(this.#servers, interval, times, signal, pending));
  };

  recheck: Source['recheck'] = (interval, pending, signal) => {
    const servers = { ...this.#servers, allowsStandby: true };
    const times = { ...this.#times, allowedMs: 0, waitedMs: 0, patienceMs: 0 };
    return withReason(signal, settleInterval(servers, interval, times, signal, pending));
  };

  lookAgain: Source['lookAgain'] = (request, earlier, position, signal, server = null) => {
    const look = this.#planned(request);
    const settled = { position, server };
    const whole = () => lookAgain(look, earlier, settled, signal);
    const short = () => lookInParts({ ...look, settled }, earlier, signal);
    return this.#inParts(request, signal, whole, short);
  };

  hasChanged: Source['hasChanged'] = (request, earlier, signal) => {
    return haveRowsChanged(this.#planned(request), earlier, signal).catch((error: unknown) => {
      // A standby that ends long reads does not show it.
      if (error instanceof SluiceError && error.code === 'source.recovery_conflict') return true;
      throw error;
    });
  };

  readSequence: Source['readSequence'] = (model, tenantKey, signal) => {
    const { source } = this.#servers;
    const look = () => source.hold(() => source.look(signal));
    const reading = { options: this.#watched, plan: this.#plan, look };
    return withReason(signal, readSequence(reading, model, tenantKey, signal));
  };

  findElsewhere: Source['findElsewhere'] = (request, keys, signal) =>
    findElsewhere(this.#planned(request, this.#reading), keys, signal);

  open: Source['open'] = (request, signal, position = null, server = null) => {
    const settled = { position, server };
    const planned = this.#planned(request, this.#reading);
    const whole = () => openSnapshot(planned, settled, signal);
    const short = () => openShortReads({ ...planned, settled }, signal);
    return this.#inParts<SourceSnapshot>(request, signal, whole, short);
  };

  #planned(request: SourceRequest, options = this.#watched): PlannedRequest {
    return { options, plan: this.#plan, request };
  }

  /** If the server is a standby that has lately ended a read of the model, or ends this one. All rows have no parts. */
  async #inParts<T>(
    request: SourceRequest,
    signal: AbortSignal,
    readWhole: () => Promise<T>,
    readParts: () => Promise<T>,
  ): Promise<T> {
    const { model, whole = false } = request;
    try {
      return await (!whole && this.#conflicts.has(model) ? readParts() : readWhole());
    } catch (error) {
      signal.throwIfAborted();
      const culprit = await findCulprit(error, this.#planned(request), signal);
      const isNoConflict = culprit.code !== 'source.recovery_conflict';
      if (isNoConflict || whole || this.#conflicts.has(model)) throw culprit;
      this.#conflicts.note(model);
      return readParts();
    }
  }

  openSmall: Source['openSmall'] = async (
    request,
    signal,
    maxBytes,
    position = null,
    server = null,
  ) => {
    const isAlone = position !== null || request.select === 'keys' || request.whole === true;
    const opened = isAlone ? null : await this.#joint.open({ request, signal, maxBytes, server });
    if (opened) return opened;
    const leave = await this.#alone.enter(signal);
    try {
      const snapshot = await this.open(request, signal, position, server);
      const close = snapshot.close.bind(snapshot);
      return Object.assign(snapshot, { close: () => close().finally(leave) });
    } catch (error) {
      leave();
      throw error;
    }
  };

  describe: Source['describe'] = (request, signal) => {
    const planned = this.#planned(request);
    // The server parses and plans the statement that would read the rows, and checks the role's rights; it runs nothing.
    return explain(planned, signal).catch(async (error: unknown) => {
      throw await findCulprit(error, planned, signal);
    });
  };

  tryRow: Source['tryRow'] = (name, tenantKey, ofOthers, signal, whole = false) => {
    const planned = { options: this.#reading, plan: this.#plan };
    return tryRow(this, planned, { name, tenantKey, ofOthers, whole }, signal);
  };

  findExcessRights: Source['findExcessRights'] = (signal) =>
    this.#connected(this.#source, signal, (client) => findExcessRights(client, signal));

  inspect: Source['inspect'] = (signal) => {
    const { allowsStandby } = this.#servers;
    const primary = this.#primary;
    return this.#connected(this.#source, signal, (client) => {
      const withPrimary: InspectedServers['withPrimary'] =
        primary && ((work) => this.#connected(primary, signal, work));
      return inspectSource({ client, allowsStandby, withPrimary }, signal);
    });
  };

  async #connected<T>(
    address: Address,
    signal: AbortSignal,
    work: (client: pg.Client) => Promise<T>,
  ): Promise<T> {
    const client = await connect({ ...address, ...this.#connecting }, signal);
    try {
      return await withReason(signal, work(client));
    } finally {
      await closeConnection(client);
    }
  }
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

interface Address {
  readonly connectionString: string;
  readonly addressName: string | undefined;
}

/** Our own statements read no query of a customer: what the server lacks is the operator's. */
function notOfQuery(error: unknown): unknown {
  if (!(error instanceof SluiceError) || error.code !== 'query.invalid') return error;
  return new SluiceError('source.unsupported', error.detail, error);
}

interface Reading extends Omit<PlannedRequest, 'request'> {
  readonly look: () => Promise<Look>;
}

/** Of versions that are times it also looks for the oldest transaction, before any later snapshot. */
async function readSequence(
  { options, plan, look }: Reading,
  model: string,
  tenantKey: string,
  signal: AbortSignal,
): Promise<SequenceReading> {
  const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
  const element = { number: 0, versionType: 'xid8' as const, from: null, newTables: [] };
  const { sequence } = plan({
    ...{ model, tenantKey, interval: anyInterval, whole: true, ...all },
    element,
  });
  if (!sequence) throw new Error('a request of an element has no sequence');
  const answer = await inSnapshot(options, tenantKey, null, signal, async (client) => {
    const [row] = await query<{ point: string }>(client, sequence.sql, signal);
    if (!row) throw new SluiceError('source.unavailable', 'the server gave no state of the table');
    return row.point;
  });
  const reading = sequence.of(answer, null);
  if (reading.point.versionType === 'xid8' || !reading.isSettled) return reading;
  return sequence.of(answer, openSince(await look()));
}
