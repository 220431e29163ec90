import type { ColumnType } from '../../../foundation/domain/row-block.ts';

/** A column of a SELECT as the server described it, before it runs. */
export interface DescribedColumn {
  readonly name: string;
  readonly typeOid: number;
  /** The server's own name of the type with its modifier: `numeric(10,2)`. */
  readonly sourceType: string;
  readonly isComposite: boolean;
}

export function isNested({ sourceType, isComposite }: DescribedColumn): boolean {
  return isComposite || sourceType.endsWith('[]') || /(?:^|\.)hstore$/.test(sourceType);
}

/** By their fixed OIDs (`pg_type.dat`). A domain is described by its base type. All string types are sent as UTF-8. */
const rawTypes: ReadonlyMap<number, ColumnType> = new Map<number, ColumnType>([
  [16, 'bool'],
  [17, 'bytea'],
  [19, 'text'], // name
  [20, 'int8'],
  [21, 'int2'],
  [23, 'int4'],
  [25, 'text'],
  [114, 'json'],
  [700, 'float4'],
  [701, 'float8'],
  [1042, 'text'], // character(n); its padding is part of the value, as in to_json
  [1043, 'text'], // character varying
  [1082, 'date'],
  [1114, 'timestamp'],
  [1184, 'timestamptz'],
  [2950, 'uuid'],
  [3802, 'jsonb'],
]);

export function columnTypeOf(typeOid: number): ColumnType {
  return rawTypes.get(typeOid) ?? 'as_json';
}
