import type { ColumnType, RowBlock } from '../../domain/row-block.ts';
import type { RejectedRow } from '../encoder.ts';

const infiniteDate = 0x7fffffff;
const minusInfiniteDate = -0x80000000;

/** The halves of the largest PostgreSQL timestamp whose microseconds since 1970 fit an int64. */
const lastMicrosHigh = 2_147_263_230;
const lastMicrosLow = 3_301_449_727;

/**
 * The rows with a value that the file's types cannot represent: infinite dates and times, and timestamps
 * from 294247-01-10T04:00:54.775808 on, since PostgreSQL counts from 2000 and Parquet from 1970. Every
 * other finite value fits: PostgreSQL's dates end at 5874897-12-31, Parquet's some thousand years later;
 * the first instant, in 4714 BC, is far from the other end. One entry per row, for its first such column.
 */
export function findRejections(block: RowBlock): readonly RejectedRow[] {
  const found = new Map<number, RejectedRow>();
  const view = new DataView(block.bytes.buffer, block.bytes.byteOffset, block.bytes.length);
  block.columns.forEach(({ type }, column) => {
    const check = checks[type];
    if (check === undefined) return;
    const width = block.columns.length;
    for (let row = 0; row < block.rowCount; row++) {
      const field = row * width + column;
      if ((block.lengths[field] as number) < 0) continue;
      const reason = check(view, block.offsets[field] as number);
      if (reason !== undefined && !found.has(row)) found.set(row, { row, column, reason });
    }
  });
  return [...found.values()].sort((one, other) => one.row - other.row);
}

/** The same block without these rows; the bytes are shared. */
export function withoutRows(block: RowBlock, rejected: readonly RejectedRow[]): RowBlock {
  const width = block.columns.length;
  const rowCount = block.rowCount - rejected.length;
  const offsets = new Int32Array(rowCount * width);
  const lengths = new Int32Array(rowCount * width);
  let from = 0;
  let kept = 0;
  const keepUpTo = (row: number): void => {
    offsets.set(block.offsets.subarray(from * width, row * width), kept * width);
    lengths.set(block.lengths.subarray(from * width, row * width), kept * width);
    kept += row - from;
    from = row + 1;
  };
  for (const { row } of rejected) keepUpTo(row);
  keepUpTo(block.rowCount);
  return { columns: block.columns, rowCount, bytes: block.bytes, offsets, lengths };
}

type Check = (view: DataView, at: number) => string | undefined;

const checkTimestamp: Check = (view, at) => {
  const high = view.getInt32(at);
  if (high < lastMicrosHigh && high > minusInfiniteDate) return undefined;
  const low = view.getUint32(at + 4);
  if (high === minusInfiniteDate && low === 0) return '-infinity has no Parquet timestamp';
  if (high === infiniteDate && low === 0xffffffff) return 'infinity has no Parquet timestamp';
  if (high > lastMicrosHigh || (high === lastMicrosHigh && low > lastMicrosLow)) {
    return 'later than 294247-01-10T04:00:54.775807Z, the last Parquet timestamp';
  }
  return undefined;
};

const checks: Partial<Record<ColumnType, Check>> = {
  date: (view, at) => {
    const days = view.getInt32(at);
    if (days === infiniteDate) return 'infinity has no Parquet date';
    return days === minusInfiniteDate ? '-infinity has no Parquet date' : undefined;
  },
  timestamp: checkTimestamp,
  timestamptz: checkTimestamp,
};
