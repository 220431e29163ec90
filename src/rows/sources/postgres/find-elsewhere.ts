import type pg from 'pg';
import type { SourceRequest } from '../source.ts';
import { inSnapshot } from './in-snapshot.ts';
import type { SnapshotOptions } from './snapshot-connections.ts';
import { describeColumns, withAbort } from './connection.ts';
import { findCulprit } from './culprit.ts';
import type { PlanSelect } from './plan.ts';

export async function findElsewhere(
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  keys: readonly (readonly (string | null)[])[],
  signal: AbortSignal,
): Promise<readonly (readonly (string | null)[])[]> {
  if (keys.length === 0) return [];
  const { relation, describeSql, select } = plan({ ...request, select: 'keys' });
  const { tenantKey, interval } = request;
  return inSnapshot(options, tenantKey, relation, signal, async (client) => {
    const described = await describeColumns(client, describeSql, signal);
    const { columns, elsewhereSql } = select(described);
    if (columns.length === 0 || !elsewhereSql) return [];
    const text = elsewhereSql(interval, keys);
    const { rows } = await withAbort(client, signal, () =>
      client.query<(string | null)[]>({ text, rowMode: 'array' } satisfies pg.QueryArrayConfig),
    );
    return rows;
  }).catch(async (error: unknown) => {
    signal.throwIfAborted();
    throw await findCulprit(error, options, plan, request, signal);
  });
}
