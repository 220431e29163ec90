import type pg from 'pg';
import type { RowBlock } from '../../../foundation/domain/row-block.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { KeyTexts } from '../../query/elsewhere.ts';
import { withAbort } from './connection.ts';
import { CopyReader } from './copy-reader.ts';
import type { SelectPlan } from './plan.ts';
import type { SliceOptions } from './read-slice.ts';
import { RowBlockBuilder } from './row-blocks.ts';

/**
 * Reads the keys that an element deletes; of those that are given, their binary form. Each block may be read until the next one is asked for.
 *
 * @throws as `readSlice`; the connection can't be used afterwards
 */
export async function* readDeletes(
  client: pg.Client,
  { blockBytes, maxRowBytes }: SliceOptions,
  { deletes }: SelectPlan,
  range: DataInterval,
  signal: AbortSignal,
  keys?: readonly KeyTexts[],
): AsyncGenerator<RowBlock, void> {
  const sqls = keys ? deletes?.keysSqls(keys) : deletes?.copySqls(range);
  for (const sql of sqls ?? []) {
    const builder = new RowBlockBuilder(deletes?.columns ?? [], blockBytes, { maxRowBytes });
    const reader = new CopyReader([{ sql, builder }]);
    try {
      client.query(reader);
      for (;;) {
        const block = await withAbort(client, signal, () => reader.next(0));
        if (!block) break;
        yield block;
      }
    } finally {
      reader.close();
    }
  }
}
