import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';

/** A record as statements select it: with the columns `type`, `config` and `secrets` of its destination. */
export type DestinationRow<T> = Omit<T, 'destination'> & StoredDestination;

export function withDestination<Row extends StoredDestination>(row: Row) {
  const { type, config, secrets, ...rest } = row;
  return { ...rest, destination: { type, config, secrets } };
}
