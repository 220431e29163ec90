import {
  readTraits,
  type StoreTraits,
  traitsValidDays,
} from '../../../foundation/domain/store-traits.ts';
import type { Sql } from '../database/database.ts';
import { command } from '../database/statement.ts';

export interface TriedPlace {
  readonly exportId: string;
  readonly destinationVersion: number;
}

/** SQL of the traits of an export aliased `e`, at its version; $4 is the days that they are valid. */
export const currentTraits = `case when e.store_traits_version = e.destination_version
  and e.store_traits_at > now() - $4 * interval '1 day' then e.store_traits end`;

/** The abilities that the store was found to have; null if it was not probed, too long ago, or not completely. */
export async function findStoreTraits(
  sql: Sql,
  { exportId, destinationVersion }: TriedPlace,
): Promise<StoreTraits | null> {
  const [row] = await sql.query<{ traits: Partial<StoreTraits> | null }>(
    `select store_traits as traits from batch_exports
      where id = $1 and store_traits_version = $2 and store_traits_at > now() - $3 * interval '1 day'`,
    [exportId, destinationVersion, traitsValidDays],
  );
  return readTraits(row?.traits ?? null);
}

/** Unless the destination has moved meanwhile. @param traits null: the store behaved differently, so the next run probes it */
export const keepStoreTraits = command(
  `update batch_exports set store_traits = $3, store_traits_version = $2, store_traits_at = now()
      where id = $1 and destination_version = $2`,
  ({ exportId, destinationVersion }: TriedPlace, traits: StoreTraits | null) => [
    exportId,
    destinationVersion,
    traits && JSON.stringify(traits),
  ],
);
