import type pg from 'pg';
import type { SourceRequest } from '../source.ts';
import { destroyConnection, query } from './connection.ts';
import { toSourceError } from './errors.ts';
import type { PlanSelect } from './plan.ts';
import { beginSnapshot, type SnapshotOptions } from './snapshot.ts';

/** What an earlier export of the interval saw. */
export interface EarlierExport {
  /** `pg_current_snapshot()` of it. */
  readonly snapshot: string;
  readonly totalCount: number;
}

/**
 * Whether the interval holds rows now that came after an earlier export's snapshot. A row counts
 * that was written by a transaction at or after the snapshot's xmin: those below had all ended and
 * were seen, subtransactions too. As some of the others were seen as well, the count must differ. Of a
 * view the count is all that there is.
 */
export async function findLateRows(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  earlier: EarlierExport,
  signal: AbortSignal,
): Promise<boolean> {
  const client = await beginSnapshot(options, signal);
  try {
    const select = await plan({ ...request, select: 'keys' }, async () => []);
    const [xmin = ''] = earlier.snapshot.split(':');
    const late = await countLate(client, select.countLateSql(request.interval, xmin), signal);
    if (late === '0') return false;
    const countSql = select.countSql(request.interval);
    const [now] = await query<{ count: string }>(client, countSql, signal);
    return now !== undefined && Number(now.count) !== earlier.totalCount;
  } catch (error) {
    throw toSourceError(error);
  } finally {
    destroyConnection(client);
  }
}

/** Null where the relation's rows do not say who wrote them: it is a view. */
async function countLate(
  client: pg.Client,
  lateSql: string,
  signal: AbortSignal,
): Promise<string | null> {
  await query(client, 'SAVEPOINT late', signal);
  try {
    const [found] = await query<{ late: string }>(client, lateSql, signal);
    return found?.late ?? null;
  } catch (error) {
    if (toSourceError(error).code !== 'source.relation_missing') throw error;
    await query(client, 'ROLLBACK TO late', signal);
    return null;
  }
}
