import type { CurrentReceipt, IntervalResult } from '../../../foundation/domain/receipt.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { queryAny, queryRows } from '../database/statement.ts';
import { boundsOf, instantOf, intervalOf } from '../database/times.ts';

/** Our record of the current manifest of one interval. */
export interface Receipt extends CurrentReceipt {
  readonly exportId: string;
  readonly interval: DataInterval;
  readonly runId: string;
  /** The version of the export's destination that it is at. */
  readonly destinationVersion: number;
  readonly rows: number;
  readonly bytes: number;
}

/** The columns of `CommittedFiles` and of the stored manifest. A new field is a line here, and a column in `migrations`. */
const committed = {
  generation: 'int',
  era: 'uuid',
  manifestKey: 'text',
  manifestEtag: 'text',
  manifestSha256: 'text',
  deliveredDigest: 'text',
  files: 'jsonb',
  rejectedFiles: 'jsonb',
  recipe: 'jsonb',
  snapshotAt: 'timestamptz',
  element: 'jsonb',
} satisfies Record<keyof Omit<CurrentReceipt, 'proof'>, string>;

/** These, those of the proof, and those that the store adds. */
const written: Readonly<Record<string, string>> = {
  ...committed,
  snapshot: 'text',
  settled: 'boolean',
  pendingTransactions: 'text[]',
  keyDigest: 'text',
  keyCount: 'bigint',
  rows: 'bigint',
  bytes: 'bigint',
  runId: 'uuid',
  destinationVersion: 'int',
};

const columnOf = (field: string): string =>
  field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export const writtenColumns: readonly string[] = Object.keys(written).map(columnOf);

/** SQL: these columns with their types. */
export const writtenTypes = Object.values(written)
  .map((type, index) => `${writtenColumns[index]} ${type}`)
  .join(', ');

/** The values of `writtenColumns` that a result has. */
export function columnsOf(result: IntervalResult): Readonly<Record<string, unknown>> {
  const rows = result.files.reduce((sum, file) => sum + file.rows, 0);
  const bytes = result.files.reduce((sum, file) => sum + file.bytes, 0);
  const { pending: pendingTransactions } = result;
  const values: Record<string, unknown> = { ...result, rows, bytes, pendingTransactions };
  return Object.fromEntries(Object.keys(written).map((field) => [columnOf(field), values[field]]));
}

const fieldOf = (field: string) => {
  const column = columnOf(field);
  return `${field === 'snapshotAt' ? `api_time(${column})` : column} as "${field}"`;
};

/** The columns of `Receipt`; of a subquery as JSON they stay what they are. */
export const receiptColumns = `export_id as "exportId", ${intervalOf('receipts')} as interval,
  ${[...Object.keys(committed), 'runId', 'destinationVersion', 'rows', 'bytes'].map(fieldOf).join(', ')},
  json_build_object('snapshot', snapshot, 'digest', key_digest, 'count', key_count, 'settled', settled,
    'pending', pending_transactions) as proof`;

export const hasReceiptAt = queryAny<[exportId: string, destinationVersion: number]>(
  `select from receipts where export_id = $1 and destination_version = $2 limit 1`,
);

export const listReceipts = queryRows<
  Receipt,
  [exportId: string, after: DataInterval | null, limit: number]
>(
  `select ${receiptColumns} from receipts where export_id = $1 and (data_interval_start, data_interval_end) > ($2, $3)
      order by data_interval_start, data_interval_end limit $4`,
  (exportId, after, limit) => [
    exportId,
    ...(after ? boundsOf(after) : ['-infinity', '-infinity']),
    limit,
  ],
);

const pageOfReceipts = 100;

/** All receipts of an export after the interval `after`, oldest first, a page at a time. */
export async function* receiptsAfter(
  sql: Sql,
  exportId: string,
  after: DataInterval | null = null,
): AsyncGenerator<Receipt> {
  for (let last = after; ; ) {
    const receipts = await listReceipts(sql, exportId, last, pageOfReceipts);
    yield* receipts;
    last = receipts.at(-1)?.interval ?? null;
    if (last === null || receipts.length < pageOfReceipts) return;
  }
}

export interface CompletedInterval extends DataInterval {
  /** Rows in its files at the current destination, rejected ones included. */
  readonly rows: number;
  readonly deliveredDigest: string | null;
}

/** Intervals of an export that start in `range` and are completed, oldest first. */
export const listCompletedIntervals = queryRows<
  CompletedInterval,
  [exportId: string, range: DataInterval]
>(
  `select ${instantOf('c.data_interval_start')} as start, ${instantOf('c.data_interval_end')} as "end",
            case when c.destination_version = e.destination_version then
              (select coalesce(sum((file->>'rows')::bigint), 0)::bigint from jsonb_array_elements(c.files || c.rejected_files) file)
            else 0 end as rows, c.delivered_digest as "deliveredDigest"
       from receipts c join batch_exports e on e.id = c.export_id
      where c.export_id = $1 and c.data_interval_start >= $2 and c.data_interval_start < $3
      order by c.data_interval_start`,
  (exportId, range) => [exportId, ...boundsOf(range)],
);
