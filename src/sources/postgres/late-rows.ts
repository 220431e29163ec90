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
 * were seen, subtransactions too. As some of the others were seen as well, the count must differ.
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
    const lateSql = select.countLateSql(request.interval, xmin);
    const [late] = await query<{ late: string }>(client, lateSql, signal);
    if (late === undefined || late.late === '0') return false;
    const countSql = select.countSql(request.interval);
    const [now] = await query<{ count: string }>(client, countSql, signal);
    return now !== undefined && Number(now.count) !== earlier.totalCount;
  } catch (error) {
    throw toSourceError(error);
  } finally {
    destroyConnection(client);
  }
}
