import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { describeError } from '../../foundation/domain/describe-error.ts';
import type { Recipe } from '../../foundation/domain/recipe.ts';
import { describeInterval } from '../../foundation/domain/time.ts';
import { KeyDifference, type KeySink, KeyTally } from '../../rows/pipeline/key-tally.ts';
import { ColumnsAbsent, joinKeys, keyOfRow } from '../../rows/pipeline/key-values.ts';
import { madeBy } from '../../rows/pipeline/read-back.ts';
import type { RenderedInterval } from '../../rows/pipeline/render-interval.ts';
import type { SourceRequest } from '../../rows/sources/source.ts';
import type { Receipt } from '../../state/store/intervals/receipts.ts';
import {
  type ComparedRows,
  compareRows,
  groupsOf,
  type RowAnswers,
  requestOf,
} from './compare-rows.ts';
import { breachesOf, counted } from './finding.ts';
import { type IntervalAnswers, noAnswers, type VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';
import { answersOf } from './verify-interval.ts';

/**
 * I4 and I3 for files that a transformation chain made: the chain is applied again to the source's rows.
 * Equal files prove that each row is exported, dropped or rejected as the chain says. Files of another
 * build may differ in their bytes: then the rows are compared. If rows left the source, those that stay are
 * compared. If rows of the source were written since, or a step is gone, only the keys are compared.
 */
export async function verifyTransformed(
  interval: VerifiedInterval,
  receipt: Receipt,
  recipe: Recipe,
): Promise<IntervalAnswers> {
  const makers = madeBy(recipe);
  const faults = await verifyFiles(interval, receipt, makers, [], () => {});
  if (faults.length > 0) return faultsOf(receipt, faults);
  const request = requestOf(interval, receipt);
  const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  try {
    const { renderAgain, signal } = interval;
    const again = await renderAgain(receipt, recipe, request, folder, signal);
    // A supplement has rejected rows in a file of its own.
    const isSameRejected =
      receipt.rejectedFiles.length > 1
        ? rowsOf(again.rejectedFiles) === rowsOf(receipt.rejectedFiles)
        : haveSameBytes(again.rejectedFiles, receipt.rejectedFiles);
    if (isSameRejected && haveSameBytes(again.files, receipt.files)) return noAnswers;
    const rows = await differRows(interval, receipt, again, folder);
    if (isSameRejected && rows.lost === 0 && rows.foreign === 0) return noAnswers;
    return await judge(interval, receipt, request, again, rows);
  } catch (error) {
    const isGone = error instanceof SluiceError && error.code === 'transformation.invalid';
    if (!isGone && !(error instanceof ColumnsAbsent)) throw error;
    const compared = await compareRows(interval, request, receipt);
    if ('faults' in compared) return faultsOf(receipt, compared.faults);
    return withUnproven(receipt, compared, isGone ? describeError(error) : error.message);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The difference between the files and what the chain makes of the source now. */
interface RowDifference {
  /** Rows that the chain makes and that no file has. */
  readonly lost: number;
  readonly foreign: number;
}

async function judge(
  interval: VerifiedInterval,
  receipt: Receipt,
  request: SourceRequest,
  again: RenderedInterval,
  { lost, foreign }: RowDifference,
): Promise<IntervalAnswers> {
  const { source, signal } = interval;
  const compared = await compareRows(interval, request, receipt);
  if ('faults' in compared) return faultsOf(receipt, compared.faults);
  const { rows, commit } = compared;
  // The count is that of now: rows that are gone say nothing about those that stay.
  const earlier =
    commit.snapshot === null
      ? null
      : { snapshot: commit.snapshot, digest: null, count: again.totalRows };
  if (!earlier || (await source.hasChanged(request, earlier, signal))) {
    const changed = `${counted(lost, 'row')} of the chain's output ${lost === 1 ? 'is' : 'are'} not in the files`;
    const why = `rows of the source have changed since, or do not show whether they have (${changed})`;
    return withUnproven(receipt, compared, why);
  }
  const { gone, moved, goneOrMoved, onlyCounted } = rows;
  const missing = onlyCounted
    ? commit.rowsRead - again.totalRows
    : gone.count + moved.count + goneOrMoved;
  const isLess = rowsOf(again.rejectedFiles) <= rowsOf(receipt.rejectedFiles);
  if (lost === 0 && foreign <= missing && isLess)
    return answersOf(receipt, withoutDropped(rows), commit);
  const detail = describeDifference(receipt, again);
  return { ...noAnswers, findings: [breachesOf(receipt.exportId)('I3', detail)] };
}

/** Only what the keys prove. */
function withUnproven(
  receipt: Receipt,
  { rows, commit }: ComparedRows,
  why: string,
): IntervalAnswers {
  const unproven = `${describeInterval(receipt.interval)}: not provable, because ${why}`;
  return { ...answersOf(receipt, withoutDropped(rows), commit), unproven };
}

function faultsOf({ exportId }: Receipt, faults: readonly string[]): IntervalAnswers {
  const breach = breachesOf(exportId);
  return { ...noAnswers, findings: faults.map((detail) => breach('I4', detail)) };
}

/** A row that is in no file may be one that the chain drops. Counts alone say nothing. */
function withoutDropped(rows: RowAnswers): RowAnswers {
  const none = { count: 0, keys: [] };
  return { ...rows, missing: none, ...(rows.onlyCounted ? { gone: none } : {}) };
}

async function differRows(
  interval: VerifiedInterval,
  receipt: Receipt,
  again: RenderedInterval,
  folder: string,
): Promise<RowDifference> {
  const { columns } = again;
  const encoding = madeBy(receipt.recipe);
  const readBoth = async (sink: KeySink) => {
    const files = { ...receipt, rejectedFiles: [] };
    await verifyFiles(interval, files, encoding, columns, (row) => sink.add(row, -1));
    for (const { key } of again.files) {
      for await (const row of interval.readRows(join(folder, key), encoding, columns)) {
        sink.add(keyOfRow(row, columns), 1);
      }
    }
  };
  const tally = new KeyTally();
  await readBoth(tally);
  const sums = { lost: 0, foreign: 0 };
  for (const group of groupsOf(tally.differing(), receipt.rows + rowsOf(again.files))) {
    const difference = new KeyDifference(group);
    await readBoth(difference);
    const { lost, doubled, shared, foreign } = difference.read();
    sums.lost += lost.length;
    sums.foreign += doubled.length + shared.length + foreign.length;
  }
  return sums;
}

function describeDifference(receipt: Receipt, again: RenderedInterval): string {
  const { files, rejectedFiles, droppedRows, totalRows } = again;
  return (
    `${describeInterval(receipt.interval)}: the files are not what the transformation chain makes of the source. They have ` +
    `${rowsOf(receipt.files)} rows and ${rowsOf(receipt.rejectedFiles)} rejected ones. Of ${totalRows} rows the chain keeps ` +
    `${rowsOf(files)}, drops ${droppedRows} and rejects ${rowsOf(rejectedFiles)}.`
  );
}

type File = Pick<Receipt['files'][number], 'rows' | 'sha256'>;

const rowsOf = (files: readonly { readonly rows: number }[]) =>
  files.reduce((sum, file) => sum + file.rows, 0);

function haveSameBytes(a: readonly File[], b: readonly File[]): boolean {
  const text = (files: readonly File[]) =>
    joinKeys(files.map(({ rows, sha256 }) => `${rows} ${sha256}`));
  return a.length === b.length && text(a) === text(b);
}
