import type pg from 'pg';
import type { SluiceError } from '../../../foundation/domain/errors.ts';
import { findHidden, type ReadRelation } from './hidden-rows.ts';
import { findLooseTenant } from './tenant-column.ts';

/**
 * Why rows that can be read are not exported: they may be those of another project, or not all. Ask it in the transaction that has read
 * the relation.
 */
export async function findRefusal(
  client: pg.Client,
  relation: ReadRelation,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  return (
    (await findLooseTenant(client, relation, signal)) ??
    (await findHidden(client, relation, signal))
  );
}
