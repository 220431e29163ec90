import type { Destination } from '../../rows/destinations/destination.ts';
import type { ErasedValue } from '../../foundation/domain/erased-value.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { DataInterval } from '../../foundation/domain/time.ts';
import { joinKeys } from '../../rows/pipeline/row-keys.ts';
import { isNamedAfter } from '../../rows/pipeline/partitioned-rows.ts';
import { madeBy, type ReadRows } from '../../rows/pipeline/read-back.ts';
import type { Sql } from '../../state/store/database/database.ts';
import { listReceipts, type Receipt, receiptsAfter } from '../../state/store/intervals/receipts.ts';
import type { VerifiedExport } from '../../state/store/intervals/verify-queries.ts';
import { verifyFiles } from './verify-files.ts';

export interface SearchedExport {
  readonly sql: Sql;
  readonly batchExport: VerifiedExport;
  readonly destination: Destination;
  readonly readRows: ReadRows;
}

export interface SearchedInterval {
  readonly interval: DataInterval;
  readonly rows: number;
  /** Rejected rows that are in the files with their key alone, and so without the column. */
  readonly keyOnlyRows: number;
  /** Keys of current files in a folder of `partition_by` that is named after the value. */
  readonly namedAfter: readonly string[];
  readonly files: readonly string[];
  /** Why the answer is not sure; null if it is. */
  readonly doubt: string | null;
  /** True if its rows have the column; null if it has no rows, or they could not be read. */
  readonly hasColumn: boolean | null;
}

/** Rows with the value, by file, one on local disk at a time. @param after intervals after this one @param only these */
export async function* findValue(
  search: SearchedExport,
  wanted: ErasedValue,
  after: DataInterval | null,
  only: ((interval: DataInterval) => boolean) | null = null,
): AsyncGenerator<SearchedInterval> {
  for await (const receipt of receiptsAfter(search.sql, search.batchExport.id, after)) {
    if (only === null || only(receipt.interval)) yield await searchCurrent(search, receipt, wanted);
  }
}

/** A run may replace the files while they are read: then the new ones are read. */
const maxTries = 3;

async function searchCurrent(
  search: SearchedExport,
  given: Receipt,
  wanted: ErasedValue,
): Promise<SearchedInterval> {
  const { start, end } = given.interval;
  let receipt = given;
  for (let tries = 1; ; tries += 1) {
    const searched = await searchInterval(search, receipt, wanted);
    if (searched.doubt === null || tries === maxTries) return searched;
    const before = { start, end: end - 1 };
    const [current] = await listReceipts(search.sql, search.batchExport.id, before, 1);
    const isReplaced = current?.interval.end === end && current.runId !== receipt.runId;
    if (!isReplaced || current.interval.start !== start) return searched;
    receipt = current;
  }
}

/** The answers of the readers of the formats. */
const columnIsMissing = /\bcolumns? not found\b/;

async function searchInterval(
  { batchExport, destination, readRows }: SearchedExport,
  receipt: Receipt,
  { column, value }: ErasedValue,
): Promise<SearchedInterval> {
  const { interval } = receipt;
  const files = [...receipt.files, ...receipt.rejectedFiles].map(({ key }) => key);
  const namedAfter = files.filter((key) => isNamedAfter(key, value));
  if (receipt.destinationVersion !== batchExport.destinationVersion) {
    const doubt = 'its files are at a place that the export has left, and are not read';
    return { interval, rows: 0, keyOnlyRows: 0, namedAfter, files, doubt, hasColumn: null };
  }
  const same = joinKeys([value]);
  let rows = 0;
  let keyOnlyRows = 0;
  const see = (key: string) => {
    if (key === same) rows += 1;
  };
  const passOver = () => {
    keyOnlyRows += 1;
  };
  const makers = madeBy(receipt.recipe);
  const columns = [{ name: column, type: 'text' as const }];
  const reading = verifyFiles({ destination, readRows }, receipt, makers, columns, see, passOver);
  const [fault] = await reading.catch((error: unknown) => {
    // The store cannot be read: then no other interval can.
    if (error instanceof SluiceError) throw error;
    return [error instanceof Error ? error.message : String(error)];
  });
  if (fault !== undefined) {
    const hasColumn = columnIsMissing.test(fault) ? false : null;
    return { interval, rows: 0, keyOnlyRows: 0, namedAfter, files, doubt: fault, hasColumn };
  }
  const hasColumn = receipt.rows > 0 ? true : null;
  return { interval, rows, keyOnlyRows, namedAfter, files, doubt: null, hasColumn };
}
