import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError, SluiceError } from '../domain/errors.ts';
import { settingsOfRecipe } from '../domain/format-settings.ts';
import type { Recipe } from '../domain/recipe.ts';
import { describeInterval } from '../domain/time.ts';
import { KeyTally } from '../pipeline/key-tally.ts';
import { joinKeys, keyOfRow } from '../pipeline/key-values.ts';
import type { RenderedInterval } from '../pipeline/render-interval.ts';
import type { Receipt } from '../store/receipts.ts';
import type { Finding } from './finding.ts';
import type { VerifiedInterval } from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';

/** Breaches, or why nothing can be proven. */
export interface VerifiedTransformed {
  readonly findings: readonly Finding[];
  readonly unproven: string | null;
}

/**
 * I4 and I3 for files that a transformation chain made: the chain is applied again to the source's rows.
 * Equal files prove that each row is exported, dropped or rejected as the chain says. Files of another
 * build may differ in their bytes: then the rows are compared. If rows of the source have changed since,
 * or a step is gone, nothing can be proven.
 */
export async function verifyTransformed(
  { batchExport, destination, source, readRows, renderAgain, signal }: VerifiedInterval,
  receipt: Receipt,
  recipe: Recipe,
): Promise<VerifiedTransformed> {
  const { exportId, interval } = receipt;
  const { format, compression } = recipe;
  const { dslQuery, includeEvents, excludeEvents } = recipe;
  const made = { format, compression, ...settingsOfRecipe(recipe) };
  const faults = await verifyFiles({ destination, readRows }, receipt, made, [], () => {});
  if (faults.length > 0) {
    const findings = faults.map((detail): Finding => ({ invariant: 'I4', exportId, detail }));
    return { findings, unproven: null };
  }
  const { model, teamId } = batchExport;
  const request = { model, teamId, interval, dslQuery, includeEvents, excludeEvents };
  const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  try {
    const again = await renderAgain(receipt, recipe, request, folder, signal);
    if (haveSameBytes(again.files, receipt.files) && haveSameRejected(again, receipt)) {
      return { findings: [], unproven: null };
    }
    const isSame = haveSameRejected(again, receipt) && (await haveSameRows(again));
    if (isSame) return { findings: [], unproven: null };
    if (receipt.proof && !(await source.hasChanged(request, receipt.proof, signal))) {
      return { findings: [describeDifference(again)], unproven: null };
    }
    return unproven('rows of the source have changed since, or do not show whether they have');
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== 'transformation.invalid') throw error;
    return unproven(describeError(error));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }

  async function haveSameRows(again: RenderedInterval): Promise<boolean> {
    const { columns } = again;
    const tally = new KeyTally();
    await verifyFiles(
      { destination, readRows },
      { ...receipt, rejectedFiles: [] },
      made,
      columns,
      (row) => tally.add(row, -1),
    );
    for (const { key } of again.files) {
      for await (const row of readRows(join(folder, key), made, columns)) {
        tally.add(keyOfRow(row, columns), 1);
      }
    }
    return tally.differing().length === 0;
  }

  function describeDifference({
    files,
    rejectedFiles,
    droppedRows,
    totalRows,
  }: RenderedInterval): Finding {
    const rows = (list: readonly { rows: number }[]) =>
      list.reduce((sum, file) => sum + file.rows, 0);
    const detail =
      `${describeInterval(interval)}: the files are not what the transformation chain makes of the source. They have ` +
      `${rows(receipt.files)} rows and ${rows(receipt.rejectedFiles)} rejected ones. Of ${totalRows} rows the chain keeps ` +
      `${rows(files)}, drops ${droppedRows} and rejects ${rows(rejectedFiles)}.`;
    return { invariant: 'I3', exportId, detail };
  }

  function unproven(why: string): VerifiedTransformed {
    return {
      findings: [],
      unproven: `${describeInterval(interval)}: not provable, because ${why}`,
    };
  }
}

type File = Pick<Receipt['files'][number], 'rows' | 'sha256'>;

function haveSameBytes(a: readonly File[], b: readonly File[]): boolean {
  const text = (files: readonly File[]) =>
    joinKeys(files.map(({ rows, sha256 }) => `${rows} ${sha256}`));
  return a.length === b.length && text(a) === text(b);
}

function haveSameRejected(again: RenderedInterval, receipt: Receipt): boolean {
  return haveSameBytes(again.rejectedFiles, receipt.rejectedFiles);
}
