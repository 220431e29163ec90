import type { Sql, Transactor } from './database.ts';

/** Reports the bytes of the values that each statement sends: an upper bound of what a request stores. */
export function countBytes(db: Transactor, onBytes: (bytes: number) => void): Transactor {
  return {
    ...countQueries(db, onBytes),
    transaction: (work) => db.transaction((tx) => work(countQueries(tx, onBytes))),
  };
}

function countQueries(sql: Sql, onBytes: (bytes: number) => void): Sql {
  return {
    query(text, values) {
      if (values !== undefined) onBytes(bytesOf(values));
      return sql.query(text, values);
    },
  };
}

function bytesOf(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (Buffer.isBuffer(value)) return value.length;
  if (!Array.isArray(value)) return 8;
  return value.reduce((sum: number, item) => sum + bytesOf(item), 0);
}
