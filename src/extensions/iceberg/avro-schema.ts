/**
 * The part of Avro that Iceberg's manifests use. Field ids are Iceberg's: readers find fields by them.
 * https://avro.apache.org/docs/1.12.0/specification/
 */
export type AvroType =
  | 'null'
  | 'int'
  | 'long'
  | 'string'
  | 'bytes'
  | AvroMap
  | AvroRecord
  | readonly ['null', AvroType];

export interface AvroRecord {
  readonly type: 'record';
  readonly name: string;
  readonly fields: readonly AvroField[];
}

/** A map of other keys than strings: an array of pairs. */
export interface AvroMap {
  readonly type: 'array';
  readonly logicalType: 'map';
  readonly items: AvroRecord;
}

export interface AvroField {
  readonly name: string;
  readonly type: AvroType;
  readonly 'field-id': number;
  readonly default?: null;
}

/**
 * An `int` or `long` is a number below 2^53, an absent value of a union is null. A map is what `encodeMap` makes of
 * it: most maps are only copied from one file to the next.
 */
export type AvroValue = null | number | string | Uint8Array | AvroObject;

export interface AvroObject {
  readonly [name: string]: AvroValue;
}

const texts = new WeakMap<AvroRecord, string>();

/** A schema as files name it. */
export function textOf(schema: AvroRecord): string {
  const text = texts.get(schema) ?? JSON.stringify(schema);
  texts.set(schema, text);
  return text;
}

/** The first bytes of an Avro file. */
export const avroMagic = Buffer.from('Obj\u0001');

export const syncBytes = 16;

export const required = (id: number, name: string, type: AvroType): AvroField => ({
  name,
  type,
  'field-id': id,
});

export const optional = (id: number, name: string, type: AvroType): AvroField => ({
  name,
  type: ['null', type],
  'field-id': id,
  default: null,
});

/** @param ids of its key and value */
export const mapOf = (ids: readonly [number, number], value: AvroType): AvroMap => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${ids[0]}_v${ids[1]}`,
    fields: [required(ids[0], 'key', 'int'), required(ids[1], 'value', value)],
  },
});
