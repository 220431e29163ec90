import type { StoredDestination } from '../../../foundation/domain/batch-export.ts';
import { queryAs } from '../database/statement.ts';

/** A record as statements select it: with the columns `type`, `config` and `secrets` of its destination. */
export type DestinationRow<T> = Omit<T, 'destination'> & StoredDestination;

export function withDestination<Row extends StoredDestination>(row: Row) {
  const { type, config, secrets, ...rest } = row;
  return { ...rest, destination: { type, config, secrets } };
}

/** Work at a destination, from columns of a `DestinationRow`. Null: there is none. */
export const queryWork = <Work extends object, Args extends readonly unknown[]>(text: string) =>
  queryAs<StoredDestination, Args, Work | null>(text, undefined, ([row]) =>
    row ? (withDestination(row) as object as Work) : null,
  );
