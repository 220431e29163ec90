import type { Model } from '../../../foundation/domain/model.ts';
import type { ModelTenant } from '../../../foundation/domain/tenant-key.ts';
import { quoteName, quoteText } from '../../query/print.ts';
import { relationOf } from '../../query/select.ts';
import { inSnapshot } from './begin-snapshot.ts';
import { findRelation } from './catalog.ts';
import { query } from './connection.ts';
import { toSourceError } from './errors.ts';
import { readRelationOf } from './plan.ts';
import { judgeTenantColumn } from './tenant-column.ts';

const options = {
  applicationName: 'sluice-check',
  connectTimeoutMs: 5_000,
  statementTimeoutMs: 5_000,
  idleTimeoutMs: 10_000,
};

/** @returns null if the relation or its column is not there */
export async function findTenant(
  connectionString: string,
  model: Model,
  tenantKey: string,
  signal: AbortSignal,
): Promise<ModelTenant | null> {
  const address = { ...options, connectionString };
  const column = model.tenantColumn;
  const found = await inSnapshot(address, tenantKey, null, signal, async (client) =>
    (await findRelation(client, model, signal))?.columns.get(column),
  );
  if (!found) return null;
  const { finding } = judgeTenantColumn({ name: column, ...found }, [tenantKey]);
  const facts = { model: model.name, column, type: found.typeName };
  if (finding !== null) return { ...facts, isPossible: false, hasRows: false };
  const sql = `SELECT 1 AS one FROM ${relationOf(model)} AS source
    WHERE source.${quoteName(column)} = ${quoteText(tenantKey)} LIMIT 1`;
  const rows = await inSnapshot(address, tenantKey, readRelationOf(model), signal, (client) =>
    query(client, sql, signal),
  ).catch((error: unknown) => {
    if (toSourceError(error).code === 'source.timeout') return null;
    throw error;
  });
  return { ...facts, isPossible: true, hasRows: rows && rows.length > 0 };
}
