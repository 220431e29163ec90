import type { ColumnType, RowBlock } from '../../../foundation/domain/row-block.ts';
import type { RejectedRow } from '../encoder.ts';
import { isNullElement, type JsonForm, notFlat, scanArray } from './json-forms.ts';
import type { ColumnForm, ParquetColumn } from './schema.ts';

const infiniteDate = 0x7fffffff;
const minusInfiniteDate = -0x80000000;

/** The halves of the largest PostgreSQL timestamp whose microseconds since 1970 fit an int64. */
const lastMicrosHigh = 2_147_263_230;
const lastMicrosLow = 3_301_449_727;

/**
 * Infinite dates and times, and timestamps from 294247-01-10T04:00:54.775808 on: PostgreSQL counts from 2000, Parquet
 * from 1970. Every other finite value fits. Also a numeric that is not finite, the time 24:00:00, and arrays of such
 * values or of arrays. One entry per row, for its first such column.
 */
export function findRejections(
  block: RowBlock,
  planned: readonly ParquetColumn[],
): readonly RejectedRow[] {
  const rejected = new Map<number, RejectedRow>();
  const view = new DataView(block.bytes.buffer, block.bytes.byteOffset, block.bytes.length);
  planned.forEach(({ form }, column) => {
    const check = checkOf(form);
    if (check === undefined) return;
    const reject = (row: number, reason: string): void => {
      if (!rejected.has(row)) rejected.set(row, { row, column, reason });
    };
    const lastHigh = form.kind === 'field' ? lastHighs[form.type] : undefined;
    checkFields(block, view, column, lastHigh, check, reject);
  });
  return [...rejected.values()].sort((one, other) => one.row - other.row);
}

type Reject = (row: number, reason: string) => void;

/** @param lastHigh of a date or timestamp: nearly all are seen to be in order by their first four bytes */
function checkFields(
  { bytes, columns, offsets, lengths, rowCount }: RowBlock,
  view: DataView,
  column: number,
  lastHigh: number | undefined,
  check: Check,
  reject: Reject,
): void {
  const width = columns.length;
  for (let row = 0, field = column; row < rowCount; row++, field += width) {
    const length = lengths[field] as number;
    if (length < 0) continue;
    const at = offsets[field] as number;
    if (lastHigh !== undefined) {
      const high = view.getInt32(at);
      if (high < lastHigh && high > minusInfiniteDate) continue;
    }
    const reason = check(bytes, at, at + length, view);
    if (reason !== undefined) reject(row, reason);
  }
}

export function withoutRows(block: RowBlock, rejected: readonly RejectedRow[]): RowBlock {
  const width = block.columns.length;
  const rowCount = block.rowCount - rejected.length;
  const offsets = new Int32Array(rowCount * width);
  const lengths = new Int32Array(rowCount * width);
  let from = 0;
  let acceptedRows = 0;
  const keepUpTo = (row: number): void => {
    offsets.set(block.offsets.subarray(from * width, row * width), acceptedRows * width);
    lengths.set(block.lengths.subarray(from * width, row * width), acceptedRows * width);
    acceptedRows += row - from;
    from = row + 1;
  };
  for (const { row } of rejected) keepUpTo(row);
  keepUpTo(block.rowCount);
  return { columns: block.columns, rowCount, bytes: block.bytes, offsets, lengths };
}

/** `view` is of the same memory as `bytes`. */
type Check = (bytes: Buffer, at: number, end: number, view: DataView) => string | undefined;

function checkOf(form: ColumnForm): Check | undefined {
  switch (form.kind) {
    case 'field':
      return checks[form.type];
    case 'plain':
      return undefined;
    case 'number':
      return form.number.check;
    case 'list':
      return checkList(form.element);
  }
}

function checkList({ check }: JsonForm): Check {
  return (bytes, at, end) => {
    let fault: string | undefined;
    let place = 0;
    const count = scanArray(bytes, at, end, (from, stop) => {
      place++;
      if (fault !== undefined || isNullElement(bytes, from, stop)) return;
      const reason = check(bytes, from, stop);
      if (reason !== undefined) fault = `element ${place}: ${reason}`;
    });
    return count === notFlat ? 'an array of arrays has no Parquet LIST of one level' : fault;
  };
}

const checkTimestamp: Check = (_bytes, at, _end, view) => {
  const high = view.getInt32(at);
  const low = view.getUint32(at + 4);
  if (high === minusInfiniteDate && low === 0) return '-infinity has no Parquet timestamp';
  if (high === infiniteDate && low === 0xffffffff) return 'infinity has no Parquet timestamp';
  if (high > lastMicrosHigh || (high === lastMicrosHigh && low > lastMicrosLow)) {
    return 'later than 294247-01-10T04:00:54.775807Z, the last Parquet timestamp';
  }
  return undefined;
};

const checks: Partial<Record<ColumnType, Check>> = {
  date: (_bytes, at, _end, view) => {
    const days = view.getInt32(at);
    if (days === infiniteDate) return 'infinity has no Parquet date';
    return days === minusInfiniteDate ? '-infinity has no Parquet date' : undefined;
  },
  timestamp: checkTimestamp,
  timestamptz: checkTimestamp,
};

/** Fields whose first four bytes are below this, but not minus infinity's, are in order. */
const lastHighs: Partial<Record<ColumnType, number>> = {
  date: infiniteDate,
  timestamp: lastMicrosHigh,
  timestamptz: lastMicrosHigh,
};
