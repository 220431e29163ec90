import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DuckDBBlobValue,
  type DuckDBConnection,
  DuckDBDateValue,
  DuckDBDecimalValue,
  DuckDBInstance,
  DuckDBListValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTimeValue,
} from '@duckdb/node-api';
import { DataType, tableFromIPC, type Vector } from 'apache-arrow';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { readParquet } from 'parquet-wasm';
import type { Column, RowBlock } from '../../src/foundation/domain/row-block.ts';
import type { Compression, FileEncoder } from '../../src/rows/encoders/encoder.ts';
import {
  openParquet,
  type ParquetOptions,
  type ParquetSizes,
} from '../../src/rows/encoders/parquet/encode.ts';
import type { TestRow, TestValue } from './row-blocks.ts';

/** Writes the blocks to one file's bytes. */
export async function encodeAll(encoder: FileEncoder, blocks: readonly RowBlock[]) {
  const parts: Uint8Array[] = [];
  for (const block of blocks) parts.push(...(await encoder.write(block)));
  parts.push(...(await encoder.finish()));
  return Buffer.concat(parts);
}

export function encodeParquet(
  columns: readonly Column[],
  compression: Compression,
  blocks: readonly RowBlock[],
  sizes?: ParquetSizes,
  options: ParquetOptions = {},
): Promise<Buffer> {
  return encodeAll(openParquet(columns, compression, sizes, options), blocks);
}

/** The rows as hyparquet reads them, in the values of row-blocks.ts. */
export async function readWithHyparquet(
  file: Buffer,
  columns: readonly Column[],
): Promise<TestRow[]> {
  // Text comes as text by its annotation; what is left is bytea.
  const options = {
    compressors,
    utf8: false,
    parsers: {
      ...lossless,
      stringFromBytes: (bytes?: Uint8Array) => bytes && new TextDecoder().decode(bytes),
    },
  };
  const rows = await parquetReadObjects({ file: arrayBufferOf(file), ...options } as Parameters<
    typeof parquetReadObjects
  >[0]);
  return rows.map((row) =>
    columns.map(({ name, type }) => {
      const value = (row[name] ?? null) as TestValue;
      return type === 'bytea' && value !== null ? Buffer.from(value as Uint8Array) : value;
    }),
  );
}

const lossless = {
  timestampFromMicroseconds: (micros: bigint) => micros,
  dateFromDays: (days: number) => days,
};

export function readMetadata(file: Buffer) {
  return parquetMetadata(arrayBufferOf(file), { parsers: lossless as never });
}

function arrayBufferOf(file: Buffer): ArrayBuffer {
  const copy = new ArrayBuffer(file.length);
  new Uint8Array(copy).set(file);
  return copy;
}

/**
 * The columns as Rust's parquet and Arrow read them: text, numbers, booleans, bytes, lists of these; decimals as text,
 * times of day as microseconds (bigint), dates and timestamps as milliseconds.
 */
export function readWithArrow(file: Buffer): Record<string, { type: string; values: unknown[] }> {
  const table = tableFromIPC(readParquet(new Uint8Array(file)).intoIPCStream());
  return Object.fromEntries(
    table.schema.fields.map(({ name, type }, at) => {
      const vector = table.getChildAt(at);
      return [name, { type: String(type), values: vector ? valuesOf(vector) : [] }];
    }),
  );
}

function valuesOf(vector: Vector): unknown[] {
  return Array.from({ length: vector.length }, (_, index) => {
    const value: unknown = vector.get(index);
    if (value === null) return null;
    if (DataType.isDecimal(vector.type)) {
      const words = [...(value as Uint32Array)].reverse();
      const hex = words.map((word) => word.toString(16).padStart(8, '0')).join('');
      return decimalText(BigInt.asIntN(128, BigInt(`0x${hex}`)), vector.type.scale);
    }
    return DataType.isList(vector.type) ? valuesOf(value as Vector) : value;
  });
}

export function decimalText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  const point = digits.length - scale;
  const fraction = scale > 0 ? `.${digits.slice(point)}` : '';
  return (unscaled < 0n ? '-' : '') + digits.slice(0, point) + fraction;
}

/** DuckDB in memory, for files given as bytes. */
export async function openDuckDb() {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  return {
    /** Rows of `select <what> from <file> <rest>`, in the values of row-blocks.ts. */
    query: (file: Buffer, what = '*', rest = ''): Promise<TestRow[]> =>
      withFile(file, async (path) => {
        const sql = `select ${what} from read_parquet('${path}') ${rest}`;
        return (await rowsOf(connection, sql)).map((row) => row.map(plain));
      }),
    /** Rows of a query with FILE as the file's path. */
    ask: (file: Buffer, sql: string): Promise<TestRow[]> =>
      withFile(file, async (path) => {
        const rows = await rowsOf(connection, sql.replaceAll('FILE', path));
        return rows.map((row) => row.map(plain));
      }),
    /** Names and types as DuckDB sees the columns. */
    types: (file: Buffer): Promise<readonly string[]> =>
      withFile(file, async (path) => {
        const rows = await rowsOf(connection, `describe from read_parquet('${path}')`);
        return rows.map(([name, type]) => `${name} ${type}`);
      }),
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

async function rowsOf(connection: DuckDBConnection, sql: string) {
  return (await connection.runAndReadAll(sql)).getRows();
}

async function withFile<Result>(file: Buffer, use: (path: string) => Promise<Result>) {
  const path = join(tmpdir(), `${randomUUID()}.parquet`);
  await writeFile(path, file);
  try {
    return await use(path);
  } finally {
    await rm(path);
  }
}

function plain(value: unknown): TestValue {
  if (value instanceof DuckDBListValue) return value.items.map(plain) as unknown as TestValue;
  if (value instanceof DuckDBDecimalValue) return value.toString();
  if (value instanceof DuckDBTimeValue) return value.micros;
  if (value instanceof DuckDBBlobValue) return Buffer.from(value.bytes);
  if (value instanceof DuckDBDateValue) return value.days;
  if (value instanceof DuckDBTimestampTZValue) return value.micros;
  if (value instanceof DuckDBTimestampValue) return value.micros;
  return value as TestValue;
}
