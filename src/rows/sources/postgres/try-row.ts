import type { Model } from '../../../foundation/domain/model.ts';
import { quoteName, quoteText } from '../../query/print.ts';
import { relationOf } from '../../query/select.ts';
import { anyInterval, type Source } from '../source.ts';
import { inSnapshot } from './in-snapshot.ts';
import type { PlannedRequest, SnapshotOptions } from './snapshot-connections.ts';
import { query } from './connection.ts';
import { findCulprit } from './culprit.ts';
import { toSourceError } from './errors.ts';
import { readRelationOf } from './plan.ts';

/** In seconds. */
const searchSeconds = 8;

interface TriedRow {
  readonly name: string;
  readonly tenantKey: string;
  /** True if a row of another project is read if the project has none. */
  readonly ofOthers: boolean;
  readonly whole: boolean;
}

/**
 * The newest one, so functions behind a view are called. Without a row, the statement is only planned.
 * @returns warnings: those of `describe`, and why no row was read although there may be one
 */
export async function tryRow(
  source: Pick<Source, 'describe' | 'open'>,
  { options, plan }: Omit<PlannedRequest, 'request'>,
  { name, tenantKey, ofOthers, whole }: TriedRow,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const selection = { model: name, dslQuery: null, includeEvents: null, excludeEvents: null };
  const request = { ...selection, tenantKey, interval: anyInterval, whole };
  const { warnings } = await source.describe(request, signal);
  const { model } = plan(request);
  const newest = await findNewestRow(options, model, tenantKey, ofOthers, signal).catch(
    async (error) => {
      throw await findCulprit(error, { options, plan, request }, signal);
    },
  );
  if (newest === null) return warnings;
  if (typeof newest === 'string') return [...warnings, newest];
  const { at } = newest;
  const interval = at === null ? anyInterval : { start: at, end: at + 1 };
  const of = { ...selection, tenantKey: newest.tenantKey, interval, whole };
  const snapshot = await source.open(of, signal);
  try {
    for (const slice of snapshot.slices) {
      for await (const _ of snapshot.read(slice, signal)) return warnings;
    }
    return warnings;
  } finally {
    await snapshot.close();
  }
}

/** Its time is in milliseconds, null without an interval column. */
async function findNewestRow(
  options: SnapshotOptions,
  model: Model,
  tenantKey: string,
  ofOthers: boolean,
  signal: AbortSignal,
) {
  const column = (name: string) => `source.${quoteName(name)}`;
  const { intervalColumn } = model;
  const at =
    intervalColumn === null
      ? 'NULL::pg_catalog.timestamptz'
      : `CAST(${column(intervalColumn)} AS pg_catalog.timestamptz)`;
  const isTimed = intervalColumn === null ? 'TRUE' : `pg_catalog.isfinite(${at})`;
  const newestFirst = intervalColumn === null ? '' : `ORDER BY ${column(intervalColumn)} DESC`;
  const rowSql = (
    rest: string,
  ) => `SELECT t.team, pg_catalog.floor(pg_catalog.date_part('epoch', t.at) OPERATOR(pg_catalog.*) 1000) AS at
    FROM (SELECT CAST(${column(model.tenantColumn)} AS pg_catalog.text) AS team, ${at} AS at FROM ${relationOf(model)} AS source
           WHERE ${isTimed} ${rest}) AS t`;
  const ofProject = `AND ${column(model.tenantColumn)} = ${quoteText(tenantKey)} ${newestFirst} LIMIT 1`;
  const limited = { ...options, statementTimeoutMs: searchSeconds * 1_000 };
  const ofAny = `AND ${column(model.tenantColumn)} IS NOT NULL LIMIT 1`;
  const relation = readRelationOf(model);
  return inSnapshot(limited, tenantKey, relation, signal, async (client) => {
    for (const rest of ofOthers ? [ofProject, ofAny] : [ofProject]) {
      const [row] = await query<{ team: string; at: number | null }>(client, rowSql(rest), signal);
      if (row) return { tenantKey: row.team, at: row.at === null ? null : Number(row.at) };
    }
    return null;
  }).catch((error: unknown) => {
    if (toSourceError(error).code !== 'source.timeout') throw error;
    return `No row was found within ${searchSeconds} seconds, so none was read as a run reads it.`;
  });
}
