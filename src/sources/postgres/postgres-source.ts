import { eventsModel } from '../../domain/events-model.ts';
import type { Source } from '../source.ts';
import { closeConnection, connect } from './connection.ts';
import { findLateRows } from './late-rows.ts';
import { type PlanSelect, planModels } from './plan.ts';
import { haveEnded, settleTransactions } from './settle.ts';
import { openSnapshot } from './snapshot.ts';

export interface PostgresSourceOptions {
  readonly connectionString: string;
  /** Shown in `pg_stat_activity`. */
  readonly applicationName?: string;
  /** Makes the SQL of a request: `planModels` of what can be exported; by default of `events`. */
  readonly plan?: PlanSelect;
  /** Bound of `settle`; 5 minutes. */
  readonly settleTimeoutMs?: number;
  readonly settlePollMs?: number;
  /** How much of the interval column one read covers; 10 minutes. */
  readonly sliceMs?: number;
  /** Size of a row block; 256 KiB, which are encoded in about 2 ms: the event loop waits for each. */
  readonly blockBytes?: number;
  readonly connectTimeoutMs?: number;
  /** Longest time of one statement, reading a slice included; 1 hour. */
  readonly statementTimeoutMs?: number;
  /** Longest pause between two statements of a run; 10 minutes. */
  readonly idleTimeoutMs?: number;
}

/** Exports a PostgreSQL database. Opens connections only while a method or a snapshot needs them. */
export function createPostgresSource(given: PostgresSourceOptions): Source {
  const options = {
    applicationName: 'sluice-export',
    settleTimeoutMs: 300_000,
    settlePollMs: 250,
    sliceMs: 600_000,
    blockBytes: 256 * 1024,
    connectTimeoutMs: 10_000,
    statementTimeoutMs: 3_600_000,
    idleTimeoutMs: 600_000,
    plan: planModels([eventsModel]),
    ...given,
  };
  return {
    async settle(end, signal) {
      const client = await connect(options, signal);
      try {
        const times = { timeoutMs: options.settleTimeoutMs, pollMs: options.settlePollMs };
        return await settleTransactions(client, end, times, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      } finally {
        await closeConnection(client);
      }
    },
    async hasEnded(pending, signal) {
      const client = await connect(options, signal);
      try {
        return await haveEnded(client, pending, signal);
      } finally {
        await closeConnection(client);
      }
    },
    hasLateRows: (request, snapshot, totalCount, signal) =>
      findLateRows(options, options.plan, request, { snapshot, totalCount }, signal),
    async open(request, signal) {
      return openSnapshot(options, options.plan, request, signal);
    },
  };
}
