import { createHash } from 'node:crypto';
import type { Column, ColumnType, RowBlock } from '../../src/foundation/domain/row-block.ts';

/** A table of the benchmark, in the order of its `id`. */
export interface BenchTable {
  readonly name: string;
  readonly rows: number;
  readonly columns: readonly Column[];
  /** The columns that the full scan reads. */
  readonly scanned: readonly string[];
  /** Equal blocks each time. */
  blocks(): Iterable<RowBlock>;
}

interface Field {
  readonly type: ColumnType;
  readonly sourceType?: string;
  /** PostgreSQL's binary form of row `n`, or a text; null is null. */
  value(n: number): Buffer | string | null;
}

const blockRows = 2048;
/** 2024-03-01 in microseconds since 2000. */
const firstMicros = 762_480_000_000_000;

/** Three tables of about the same bytes; `rows` are those of the narrow one. */
export function benchTables(rows: number): readonly BenchTable[] {
  const wide = Object.fromEntries(
    Array.from({ length: 100 }, (_, at) => [`c${at}`, wideField(at)]),
  );
  return [
    tableOf('narrow', rows, {
      id: idField,
      account: int4((n) => mixed(n) % 50_000),
      at: atField,
      amount: decimal('numeric(10,2)', (n) => (mixed(n) % 1_000_000) / 100),
      ratio: float8((n) => mixed(n) / 7),
    }),
    tableOf('events', Math.ceil(rows / 10), {
      id: idField,
      key: { type: 'uuid', value: (n) => digestOf(n) },
      event: text(
        (n) => ['$pageview', '$autocapture', 'signed up', 'purchased'][mixed(n) % 4] ?? '',
      ),
      user: text((n) => `user-${mixed(n) % 50_000}@example.com`),
      url: text(
        (n) => `https://app.example.com/project/${mixed(n) % 977}?q=${digestOf(n).toString('hex')}`,
      ),
      properties: {
        type: 'jsonb',
        value: (n) =>
          `\u0001{"$os": "Mac OS X", "$lib": "web", "amount": ${(mixed(n) % 10_000) / 100}, "$session_id": "${digestOf(n >> 3).toString('hex')}"}`,
      },
      at: atField,
    }),
    tableOf('wide', Math.ceil(rows / 25), { id: idField, ...wide }),
  ];
}

function wideField(at: number): Field {
  const seed = at * 7919;
  switch (at % 4) {
    case 0:
      return text((n) => `text ${mixed(n + seed) % 10_000}`);
    case 1:
      return decimal('numeric(12,2)', (n) => (mixed(n + seed) % 100_000_000) / 100);
    case 2:
      return {
        type: 'timestamptz',
        value: (n) => int64(firstMicros + n * 1000 + (mixed(n + seed) % 1e6)),
      };
    default:
      return int4((n) => mixed(n + seed) % 1000);
  }
}

const idField: Field = { type: 'int8', value: (n) => int64(n) };
const atField: Field = {
  type: 'timestamptz',
  value: (n) => int64(firstMicros + n * 700 + (mixed(n) % 700)),
};

function text(value: (n: number) => string): Field {
  return { type: 'text', value };
}

function decimal(sourceType: string, value: (n: number) => number): Field {
  return { type: 'as_json', sourceType, value: (n) => value(n).toFixed(2) };
}

function int4(value: (n: number) => number): Field {
  return {
    type: 'int4',
    value(n) {
      const bytes = Buffer.allocUnsafe(4);
      bytes.writeInt32BE(value(n));
      return bytes;
    },
  };
}

function float8(value: (n: number) => number): Field {
  return {
    type: 'float8',
    value(n) {
      const bytes = Buffer.allocUnsafe(8);
      bytes.writeDoubleBE(value(n));
      return bytes;
    },
  };
}

function int64(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

/** A whole number below 2^31 that looks random, always the same for `n`. */
function mixed(n: number): number {
  let hash = Math.imul(n ^ (n >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 1;
}

function digestOf(n: number): Buffer {
  return createHash('md5').update(String(n)).digest();
}

function tableOf(name: string, rows: number, fields: Readonly<Record<string, Field>>): BenchTable {
  const list = Object.entries(fields);
  const columns = list.map(([column, { type, sourceType = type }]) => ({
    name: column,
    type,
    sourceType,
  }));
  return {
    name,
    rows,
    columns,
    scanned: columns.map((column) => column.name),
    *blocks() {
      for (let from = 0; from < rows; from += blockRows) {
        yield blockOf(
          columns,
          list.map(([, field]) => field),
          from,
          Math.min(rows, from + blockRows),
        );
      }
    },
  };
}

function blockOf(
  columns: readonly Column[],
  fields: readonly Field[],
  from: number,
  to: number,
): RowBlock {
  const parts: Buffer[] = [];
  const offsets = new Int32Array((to - from) * fields.length);
  const lengths = new Int32Array(offsets.length);
  let at = 0;
  let index = 0;
  for (let n = from; n < to; n++) {
    for (const field of fields) {
      const value = field.value(n);
      const bytes = typeof value === 'string' ? Buffer.from(value) : value;
      offsets[index] = at;
      lengths[index++] = bytes?.length ?? -1;
      if (bytes) parts.push(bytes);
      at += bytes?.length ?? 0;
    }
  }
  return { columns, rowCount: to - from, bytes: Buffer.concat(parts), offsets, lengths };
}
