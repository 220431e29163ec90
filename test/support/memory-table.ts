import { createHash } from 'node:crypto';
import type { TableField } from '../../src/foundation/domain/table-field.ts';
import type { IntervalFiles, TableCommit } from '../../src/extensions/iceberg/commit-interval.ts';
import type { TableObjects, TablePlace } from '../../src/extensions/iceberg/table-objects.ts';

const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
/** When the first commit of a test is. */
export const firstNow = Date.parse('2024-03-01T12:00:00Z');

/** A store with conditional writes, in memory. */
export interface MemoryObjects extends TableObjects {
  readonly kept: Map<string, Buffer>;
  /** The keys that were read, in order. */
  readonly reads: string[];
}

export function memoryObjects(): MemoryObjects {
  const kept = new Map<string, Buffer>();
  const reads: string[] = [];
  const tag = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex');
  return {
    kept,
    reads,
    async read(key) {
      reads.push(key);
      const bytes = kept.get(key);
      return bytes ? { bytes, etag: tag(bytes) } : null;
    },
    async put(key, bytes, expected) {
      const found = kept.get(key);
      const isFree = found ? tag(found) === expected : expected === null;
      if (isFree) kept.set(key, Buffer.from(bytes));
      return isFree || Buffer.from(bytes).equals(found ?? Buffer.alloc(0));
    },
    async *list(prefix) {
      for (const key of [...kept.keys()].toSorted()) if (key.startsWith(prefix)) yield { key };
    },
    async remove(keys) {
      for (const key of keys) kept.delete(key);
    },
  };
}

export const place: TablePlace = {
  owner: '00000000-0000-4000-8000-000000000001',
  folder: 'p',
  uri: (key) => `s3://exports/${key}`,
};

/** A commit to the table in `objects`. */
export function commitTo(objects: TableObjects, changes: Partial<TableCommit> = {}): TableCommit {
  return {
    place,
    objects,
    retentionMs: 7 * dayMs,
    signal: new AbortController().signal,
    readNow: async () => firstNow,
    confirm: async () => {},
    ...changes,
  };
}

export const field = (name: string, type: string, id: number): TableField => ({
  id,
  name,
  required: false,
  type,
});

/** One file of 10 rows for the hour of that number of a day. */
export function filesOf(
  hour: number,
  generation = 1,
  changes: Partial<IntervalFiles> = {},
): IntervalFiles {
  const start = Date.parse('2024-03-01T00:00:00Z') + hour * hourMs;
  const iso = (at: number) => new Date(at).toISOString().replace('.000', '');
  const stem = `p/${iso(start)}-${iso(start + hourMs)}`;
  const version = generation === 1 ? '' : `.v${generation}`;
  return {
    stem,
    start,
    end: start + hourMs,
    generation,
    files: [{ key: `${stem}${version}.parquet`, rows: 10, bytes: 1000 + generation, columns: [] }],
    fields: [field('id', 'int', 7)],
    isSealed: false,
    mayHaveLeft: false,
    ...changes,
  };
}
