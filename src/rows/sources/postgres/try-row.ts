import type { Model } from '../../../foundation/domain/model.ts';
import { quoteName, quoteText } from '../../query/print.ts';
import { relationOf } from '../../query/select.ts';
import { anyInterval, type Source } from '../source.ts';
import { inSnapshot, type SnapshotOptions } from './begin-snapshot.ts';
import { query } from './connection.ts';
import { findCulprit } from './culprit.ts';
import { toSourceError } from './errors.ts';
import { type PlanSelect, readRelationOf } from './plan.ts';

interface FoundRow {
  readonly tenantKey: string;
  /** The time in its interval column, in milliseconds. */
  readonly at: number;
}

/** Maximum time to look for a row, in seconds. */
const searchSeconds = 8;

interface TriedRow {
  /** The name of its model. */
  readonly name: string;
  readonly tenantKey: string;
  /** True if a row of another project is read if the project has none. */
  readonly ofOthers: boolean;
}

/**
 * Reads the newest row of a project as a run does: functions behind a view are called. Without a row, the statement is only planned.
 *
 * @returns warnings: those of `describe`, and why no row was read although there may be one
 * @throws SluiceError as a run does
 */
export async function tryRow(
  source: Pick<Source, 'describe' | 'open'>,
  { options, plan }: { readonly options: SnapshotOptions; readonly plan: PlanSelect },
  { name, tenantKey, ofOthers }: TriedRow,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const asked = { model: name, dslQuery: null, includeEvents: null, excludeEvents: null };
  const request = { ...asked, tenantKey, interval: anyInterval };
  const { warnings } = await source.describe(request, signal);
  const { model } = plan(request);
  const newest = await findNewestRow(options, model, tenantKey, ofOthers, signal).catch(
    async (error) => {
      throw await findCulprit(error, options, plan, request, signal);
    },
  );
  if (newest === null) return warnings;
  if (typeof newest === 'string') return [...warnings, newest];
  const interval = { start: newest.at, end: newest.at + 1 };
  const snapshot = await source.open({ ...asked, tenantKey: newest.tenantKey, interval }, signal);
  try {
    for (const slice of snapshot.slices) {
      for await (const _ of snapshot.read(slice, signal)) return warnings;
    }
    return warnings;
  } finally {
    await snapshot.close();
  }
}

async function findNewestRow(
  options: SnapshotOptions,
  model: Model,
  tenantKey: string,
  ofOthers: boolean,
  signal: AbortSignal,
): Promise<FoundRow | string | null> {
  const column = (name: string) => `source.${quoteName(name)}`;
  const moment = `CAST(${column(model.intervalColumn)} AS pg_catalog.timestamptz)`;
  const rowSql = (
    rest: string,
  ) => `SELECT t.team, pg_catalog.floor(pg_catalog.date_part('epoch', t.at) OPERATOR(pg_catalog.*) 1000) AS at
    FROM (SELECT CAST(${column(model.tenantColumn)} AS pg_catalog.text) AS team, ${moment} AS at FROM ${relationOf(model)} AS source
           WHERE pg_catalog.isfinite(${moment}) ${rest}) AS t`;
  const ofProject = `AND ${column(model.tenantColumn)} = ${quoteText(tenantKey)} ORDER BY ${column(model.intervalColumn)} DESC LIMIT 1`;
  const limited = { ...options, statementTimeoutMs: searchSeconds * 1_000 };
  const ofAny = `AND ${column(model.tenantColumn)} IS NOT NULL LIMIT 1`;
  const relation = readRelationOf(model);
  return inSnapshot(limited, tenantKey, relation, signal, async (client) => {
    for (const rest of ofOthers ? [ofProject, ofAny] : [ofProject]) {
      const [row] = await query<{ team: string; at: number }>(client, rowSql(rest), signal);
      if (row) return { tenantKey: row.team, at: Number(row.at) };
    }
    return null;
  }).catch((error: unknown) => {
    if (toSourceError(error).code !== 'source.timeout') throw error;
    return `No row was found within ${searchSeconds} seconds, so none was read as a run reads it.`;
  });
}
