import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect } from 'vitest';
import { canonicalBytes } from '../../src/foundation/domain/canonical-json.ts';
import type { StoredDestination } from '../../src/foundation/domain/batch-export.ts';
import type { Booking, Reconciliation } from '../../src/foundation/domain/statement.ts';
import { isSignedBy } from '../../src/foundation/security/signing-keys.ts';
import { joinConnectors } from '../../src/main/connectors.ts';
import { statementSourcesOf } from '../../src/main/statement-sources.ts';
import { readPublicKeys } from '../../src/service/use-cases/installation/signing.ts';
import { makeStatement } from '../../src/service/use-cases/statements/make-statement.ts';
import { WorkGuard } from '../../src/service/use-cases/work-guard.ts';
import { Attempt } from '../../src/service/worker/attempt.ts';
import type { StatementOptions } from '../../src/service/worker/put-statements.ts';
import { stateExports } from '../../src/service/worker/sweep.ts';
import { RunStatements } from '../../src/state/store/runs/run-statements.ts';
import { insertRuns } from '../../src/state/store/runs/runs.ts';
import { contextWith } from '../conformance/destination-suite.ts';
import { openIntervalBench } from './interval-bench.ts';
import { folderOfTest } from './own-folder.ts';
import { hourMs, openRunSide } from './run-side.ts';
import { useEach, useStage } from './use-stage.ts';

export interface Statement {
  readonly number: number;
  readonly previous: { readonly number: number; readonly sha256: string } | null;
  readonly begins: string | null;
  readonly period: { readonly start: string; readonly end: string };
  readonly bookings: readonly Booking[];
  readonly balance: Readonly<Record<string, { readonly rows: number }>>;
  readonly reconciliation: Reconciliation;
}

export const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Exports of the destination File, their runs, and the sweep that makes and puts their statements. */
export function useStatementBench() {
  const bench = useStage(() => openIntervalBench(20));
  const side = useEach(openRunSide);
  let root: string;
  let options: StatementOptions;

  beforeEach(() => {
    root = folderOfTest();
    const { context, db } = side;
    options = {
      context,
      connectors: joinConnectors(
        () => bench.source,
        contextWith({ fileDestinationRoot: root }),
        context.secrets,
      ),
      onSweepError: (error) => {
        throw error;
      },
      stopping: new AbortController().signal,
      guard: new WorkGuard(db, () => {}),
      statements: statementSourcesOf([], 'postgres://host/rows'),
      checkers: [],
    };
  });
  const usual = (config = {}) => ({
    type: 'File',
    config: { directory: 'acme', prefix: 'events/{year}', ...config },
    secrets: null,
  });
  const folder = () => join(root, 'acme/events/_sluice');
  const make = (exportId: string) => makeStatement(side.context, options.statements, exportId);

  async function exportOfHours(hours: number, destination: StoredDestination = usual()) {
    const made = await side.createExport({ createdMsAgo: hours * hourMs, destination });
    await side.decide();
    return made.id;
  }

  /** Executes all runs that wait. */
  async function runAll(exportId: string): Promise<void> {
    const { context, db } = side;
    const statements = new RunStatements(db, context.policy.leaseMs);
    const { connectors } = options;
    const given = { context, statements, connectors, memoryBytes: 2 ** 30, onError() {} };
    for (const { id, status } of await side.listRuns(exportId)) {
      if (status !== 'Starting') continue;
      const run = await side.claim(id);
      const attempt = new Attempt(given, run, new AbortController().signal, null);
      expect(await attempt.execute()).toMatchObject({ end: 'completed' });
    }
  }

  /** One sweep of a worker. Nothing waits for its next try, and no process that is frozen keeps others from an export. */
  async function sweep(): Promise<void> {
    await side.db.query(`update batch_exports set statement_after = now()`);
    await side.db.query(`update guarded_work set expires_at = now() - interval '1 hour'`);
    await stateExports(options);
  }

  return {
    ...{ bench, exportOfHours, folder, make, runAll, side, sweep, usual },
    root: () => root,
    options: () => options,

    /** Makes a statement and sweeps, which puts it. */
    async put(exportId: string): Promise<void> {
      await make(exportId);
      await sweep();
    },

    /** An export of so many hours, all delivered and stated. */
    async stated(hours: number, destination = usual()): Promise<string> {
      const id = await exportOfHours(hours, destination);
      await runAll(id);
      await make(id);
      return id;
    },

    /** A run of an interval before the first tick. */
    backfill: (exportId: string, start: number) =>
      insertRuns(side.db, [
        {
          ...{ exportId, teamId: side.teamId, backfillId: null },
          interval: { start, end: start + hourMs },
        },
      ]),

    async readStatement(number: number, at = folder()) {
      const bytes = await readFile(join(at, `statements/${number}.json`));
      return { bytes, statement: JSON.parse(String(bytes)) as Statement };
    },

    async isSigned(document: Record<string, unknown>): Promise<boolean> {
      const { keys } = JSON.parse(String(await readPublicKeys(side.db)));
      const { receipt, ...rest } = document as { receipt: { key_id: string; signature: string } };
      const key = keys.find((one: { key_id: string }) => one.key_id === receipt.key_id);
      return isSignedBy(key.public_key, canonicalBytes(rest), receipt.signature);
    },

    /** The next statement of the schedule is due. */
    async due(exportId: string): Promise<void> {
      await side.sql`update batch_exports set statement_at = now() where id = ${exportId}`;
    },
  };
}
