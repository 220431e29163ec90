import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DuckDBBlobValue,
  type DuckDBConnection,
  DuckDBDateValue,
  DuckDBInstance,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
} from '@duckdb/node-api';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import type { Column, RowBlock } from '../../src/domain/row-block.ts';
import type { Compression, FileEncoder } from '../../src/encoders/encoder.ts';
import { openParquet, type ParquetSizes } from '../../src/encoders/parquet/encode.ts';
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
): Promise<Buffer> {
  return encodeAll(openParquet(columns, compression, sizes), blocks);
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

/** DuckDB in memory, for files given as bytes. */
export interface DuckDb {
  /** Rows of `select <what> from <file> <rest>`, in the values of row-blocks.ts. */
  query(file: Buffer, what?: string, rest?: string): Promise<TestRow[]>;
  /** Names and types as DuckDB sees the columns. */
  types(file: Buffer): Promise<readonly string[]>;
  close(): void;
}

export async function openDuckDb(): Promise<DuckDb> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  return {
    query: (file, what = '*', rest = '') =>
      withFile(file, async (path) => {
        const sql = `select ${what} from read_parquet('${path}') ${rest}`;
        return (await rowsOf(connection, sql)).map((row) => row.map(plain));
      }),
    types: (file) =>
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
  if (value instanceof DuckDBBlobValue) return Buffer.from(value.bytes);
  if (value instanceof DuckDBDateValue) return value.days;
  if (value instanceof DuckDBTimestampTZValue) return value.micros;
  if (value instanceof DuckDBTimestampValue) return value.micros;
  return value as TestValue;
}
