import type pg from 'pg';
import type { SourceRequest } from '../source.ts';
import { beginReading, type SnapshotOptions } from './begin-snapshot.ts';
import { describeColumns, destroyConnection, serverVersionOf, withAbort } from './connection.ts';
import { toSourceError } from './errors.ts';
import type { PlanSelect } from './plan.ts';

/** The keys of those rows of the tenant that have one of `keys` outside the request's interval. Throws SluiceError. */
export async function findElsewhere(
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
    signal.throwIfAborted();
    throw toSourceError(error);
  } finally {
    destroyConnection(client);
  }
}
