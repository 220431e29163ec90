import type pg from 'pg';
import { closeConnection } from './connection.ts';
import { type ReadRelation, rowSecuritySql } from './hidden-rows.ts';
import { begin } from './snapshot.ts';
import { nowhere, type TransactionOptions } from './snapshot-connections.ts';

/** One piece of work in a transaction with its own snapshot. @param relation whose rows are read; null: none are */
export async function inSnapshot<T>(
  options: TransactionOptions,
  tenantKey: string,
  relation: ReadRelation | null,
  signal: AbortSignal,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const rowSecurity = relation && { rowSecurity: rowSecuritySql([relation], true) };
  const { client } = await begin(options, { tenantKey, ...rowSecurity }, nowhere, [], signal);
  try {
    return await work(client);
  } finally {
    await closeConnection(client);
  }
}
