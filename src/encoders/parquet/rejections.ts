import type { ColumnType, RowBlock } from '../../domain/row-block.ts';
import type { RejectedRow } from '../encoder.ts';
import { isNullElement, notFlat, scanArray } from './json-array.ts';
import type { JsonForm } from './json-forms.ts';
import type { ColumnForm, ParquetColumn } from './schema.ts';

const infiniteDate = 0x7fffffff;
const minusInfiniteDate = -0x80000000;

/** The halves of the largest PostgreSQL timestamp whose microseconds since 1970 fit an int64. */
const lastMicrosHigh = 2_147_263_230;
const lastMicrosLow = 3_301_449_727;

/**
 * The rows with a value that the file's types cannot represent: infinite dates and times, and timestamps
 * from 294247-01-10T04:00:54.775808 on, since PostgreSQL counts from 2000 and Parquet from 1970. Every
 * other finite value fits: PostgreSQL's dates end at 5874897-12-31, Parquet's some thousand years later;
 * the first instant, in 4714 BC, is far from the other end. Of schema 2 also a numeric that is not finite,
 * the time 24:00:00, and arrays of such values or of arrays. One entry per row, for its first such column.
 */
export function findRejections(
  block: RowBlock,
  planned: readonly ParquetColumn[],
): readonly RejectedRow[] {
  const found = new Map<number, RejectedRow>();
  const view = new DataView(block.bytes.buffer, block.bytes.byteOffset, block.bytes.length);
  planned.forEach(({ form }, column) => {
    const check = checkOf(form);
    if (check === undefined) return;
    const width = planned.length;
    for (let row = 0; row < block.rowCount; row++) {
      const field = row * width + column;
      const length = block.lengths[field] as number;
      if (length < 0) continue;
      const reason = check(view, block.offsets[field] as number, length, block.bytes);
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

type Check = (view: DataView, at: number, length: number, bytes: Buffer) => string | undefined;

function checkOf(form: ColumnForm): Check | undefined {
  switch (form.kind) {
    case 'field':
      return checks[form.type];
    case 'plain':
      return undefined;
    case 'number':
      return (_view, at, length, bytes) => form.number.check(bytes, at, at + length);
    case 'list':
      return checkList(form.element);
  }
}

function checkList({ check }: JsonForm): Check {
  return (_view, at, length, bytes) => {
    let fault: string | undefined;
    let place = 0;
    const count = scanArray(bytes, at, at + length, (from, end) => {
      place++;
      if (fault !== undefined || isNullElement(bytes, from, end)) return;
      const reason = check(bytes, from, end);
      if (reason !== undefined) fault = `element ${place}: ${reason}`;
    });
    return count === notFlat ? 'an array of arrays has no Parquet LIST of one level' : fault;
  };
}

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
