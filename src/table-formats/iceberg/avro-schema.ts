/**
 * The part of Avro that Iceberg's manifests use. Field ids are Iceberg's: readers find fields by them.
 * https://avro.apache.org/docs/1.12.0/specification/
 */
export type AvroType =
  | 'null'
  | 'int'
  | 'long'
  | 'string'
  | AvroRecord
  | readonly ['null', AvroType];

export interface AvroRecord {
  readonly type: 'record';
  readonly name: string;
  readonly fields: readonly AvroField[];
}

export interface AvroField {
  readonly name: string;
  readonly type: AvroType;
  readonly 'field-id': number;
  readonly default?: null;
}

/** An `int` or `long` is a number below 2^53, an absent value of a union is null. */
export type AvroValue = null | number | string | AvroObject;

export interface AvroObject {
  readonly [name: string]: AvroValue;
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
