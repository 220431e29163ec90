import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { notFound } from '../../../foundation/domain/problem.ts';
import { type Signature, withReceipt } from '../../../foundation/domain/signature.ts';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { addSum, type Booking, nameOfPlace, noSum } from '../../../foundation/domain/statement.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { currentEra } from '../../../state/store/database/eras.ts';
import { listFormerDestinations } from '../../../state/store/files/former-destinations.ts';
import { listReplacedFiles } from '../../../state/store/files/leftover-files.ts';
import {
  findStatementOf,
  listStatedMonth,
  type StatedMonth,
  type StoredStatement,
} from '../../../state/store/intervals/stated-records.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Reach } from '../../../state/store/tenants/tenants.ts';
import type { Context } from '../context.ts';
import { readSigner } from '../installation/signing.ts';
import { placeOfExport, type StatementSources } from './make-statement.ts';

type Keeper = Pick<Context, 'db' | 'secrets'>;

/** An extract of statements for people, signed as these are. docs/receipts.md has its members. */
export type SignedDocument = Readonly<Record<string, unknown>> & { readonly receipt: Signature };

async function sign(
  context: Keeper,
  type: string,
  facts: Readonly<Record<string, unknown>>,
): Promise<SignedDocument> {
  const { db } = context;
  const origin = { made_at: toTimestamp(await readNow(db)), era: (await currentEra(db)).id };
  return withReceipt({ type, ...origin, ...facts }, await readSigner(context));
}

const mostFiles = 1_000;

/**
 * The certificate of an erasure: its files, the statements that have it, and what was left.
 *
 * @throws Refusal (404) if no statement has the request
 */
export async function makeCertificate(
  context: Keeper,
  sources: Pick<StatementSources, 'placeOf'>,
  batchExport: BatchExport,
  request: string,
): Promise<SignedDocument> {
  const { db } = context;
  const { id } = batchExport;
  const intervals: ReturnType<typeof erasedIn> = [];
  for (let next = await findStatementOf(db, id, request, 0); next !== null; ) {
    intervals.push(...erasedIn(next, request));
    next = await findStatementOf(db, id, request, next.number);
  }
  if (intervals.length === 0) throw notFound();
  const replaced = await listReplacedFiles(db, id, null, mostFiles);
  const former = (await listFormerDestinations(db, id)).map(({ config }) =>
    nameOfPlace(placeOfExport(sources, batchExport, config)),
  );
  const here = nameOfPlace(placeOfExport(sources, batchExport));
  return sign(context, 'sluice.erasure.v1', {
    batch_export_id: id,
    name: batchExport.name,
    request,
    asked_at: intervals.map((one) => String(one.asked_at)).toSorted()[0],
    erased_at: intervals
      .map((one) => one.erased_at)
      .toSorted()
      .at(-1),
    rows: intervals.reduce((sum, { rows }) => sum + rows, 0),
    intervals,
    left: {
      replaced_files: replaced.length,
      former_places: [...new Set(former)].filter((name) => name !== here).toSorted(),
      not_searched: 'The source, copies that others have made, and files at former places.',
    },
  });
}

function erasedIn({ number, sha256, body }: StoredStatement, request: string) {
  const { bookings } = JSON.parse(String(body)) as { readonly bookings: readonly Booking[] };
  return bookings.flatMap(({ kind, start, end, at, before, after, note }) => {
    if (kind !== 'erased' || note?.request !== request) return [];
    const rows = (before?.rows ?? 0) - after.rows;
    const { asked_at, files } = note;
    return [{ start, end, statement: { number, sha256 }, asked_at, erased_at: at, rows, files }];
  });
}

const mostExports = 1_000;

/**
 * The record of what a customer's exports have delivered of one month, by their newest statements.
 *
 * @param wanted such as `2024-03`; null: the present one
 */
export async function makeDeliveryRecord(
  context: Keeper,
  reach: Reach,
  wanted: string | null,
): Promise<SignedDocument> {
  const month = wanted ?? toTimestamp(await readNow(context.db)).slice(0, 7);
  const exports = await listStatedMonth(context.db, reach, `${month}-01`, mostExports);
  const totals = exports.reduce((sum, one) => addSum(sum, one), noSum);
  return sign(context, 'sluice.delivery.v1', {
    organization_id: reach.organizationId,
    project_id: reach.teamId,
    month,
    exports: exports.map(exportOf),
    totals,
    more: (exports[0]?.count ?? 0) - exports.length,
  });
}

/** In the order of the columns for people. */
function exportOf({ id, name, projectId, number, sha256, statedTo, ...month }: StatedMonth) {
  const { states, count: _, ...sums } = month;
  const { delivered = 0, empty = 0, accepted = 0, open = 0, not_due = 0 } = states;
  return {
    ...{ batch_export_id: id, name, project_id: projectId },
    statement: number === null ? null : { number, sha256 },
    stated_to: statedTo,
    intervals: { delivered, empty, accepted, open, not_due },
    ...inSnakeCase(sums),
  };
}
