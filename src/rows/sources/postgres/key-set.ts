import type pg from 'pg';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { withAbort } from './connection.ts';
import { CopyReader } from './copy-reader.ts';
import { KeyDigest } from './key-digest.ts';
import type { SelectPlan } from './plan.ts';
import { RowBlockBuilder } from './row-blocks.ts';

/** The keys of an interval's rows as a set. */
export async function readKeys(
  client: pg.Client,
  { keys }: SelectPlan,
  interval: DataInterval,
  blockBytes: number,
  signal: AbortSignal,
): Promise<KeyDigest> {
  const { columns, copySql } = keys ?? { columns: [], copySql: () => '' };
  const digest = new KeyDigest();
  const reader = new CopyReader([
    { sql: copySql(interval), builder: new RowBlockBuilder(columns, blockBytes) },
  ]);
  client.query(reader);
  for (;;) {
    const block = await withAbort(client, signal, () => reader.next());
    if (!block) return digest;
    const { offsets, lengths } = block;
    const fields = columns.map((_, field) => ({ offsets, lengths, width: columns.length, field }));
    digest.add(block.bytes, block.rowCount, fields);
  }
}
