import { SluiceError } from '../../foundation/domain/errors.ts';
import { manifestKey } from '../../foundation/domain/object-keys.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { SourceSnapshot } from '../sources/source.ts';
import { commitFiles, prepareCommit } from './commit.ts';
import { requestOf, type SettledAttempt } from './interval-job.ts';
import {
  type CommitIntent,
  type CurrentReceipt,
  type IntervalResult,
  unchanged,
} from '../../foundation/domain/receipt.ts';
import { KeySpool } from './key-spool.ts';
import { countRenamed, findLateRows, type LateRows } from './late-rows.ts';
import { isTombstone, type Manifest, schemaOf } from './manifest.ts';
import { withSchema } from './missing-rows.ts';
import { readDeliveredKeys } from './read-back.ts';
import { RowKeys } from './row-keys.ts';
import { countSteps, writeRows } from './write-rows.ts';

/** Why late rows of an interval are not added. @throws SluiceError `run.late_rows_wait` */
function wait(why: string): never {
  throw new SluiceError('run.late_rows_wait', why);
}

/**
 * Adds the rows that the files of an interval lack: as files of a later generation, beside the ones that are there. No
 * delivered file is written again or removed, whatever has left the source or was changed there. Without late rows only our
 * record says what the source has now.
 *
 * @throws SluiceError `run.late_rows_wait` if it cannot be known which rows are late, or they cannot be added
 */
export async function supplementInterval(attempt: SettledAttempt): Promise<IntervalResult> {
  const { job, source, signal, folder } = attempt;
  const { position, server } = attempt.settlement;
  attempt.ports.at('read');
  const delivered = findDelivered(attempt);
  const written = withSchema(delivered, attempt.found.manifest);
  const request = requestOf(job);
  const keysOnly = { ...job.request, select: 'keys' as const };
  const { columns, renamable, warnings } = await source.describe(keysOnly, signal);
  for (const warning of warnings) attempt.ports.log('WARNING', warning);
  const inFiles = new KeySpool(folder, 'delivered-keys');
  const seen = new KeySpool(folder, 'source-keys');
  const open: SourceSnapshot[] = [];
  try {
    const { destination, ports } = attempt;
    const reading = { destination, readRows: job.readRows, folder, signal };
    const readDelivered = (into: KeySpool, wanted: readonly Column[]) =>
      readDeliveredKeys(reading, written, wanted, (key) => into.add(key));
    const fault =
      columns.length === 0
        ? 'the rows do not contain all key columns'
        : await readDelivered(inFiles, columns);
    if (fault !== null) {
      const now = await source.open(request, signal, position, server);
      open.push(now);
      wait(`${fault}. ${describeCounts(delivered, (await now.readKeySet(signal)).count)}`);
    }
    const keys = await source.open(keysOnly, signal, position, server);
    open.push(keys);
    const { late, ambiguous } = await findLateRows(keys, seen, inFiles, signal);
    if (ambiguous > 0) {
      wait(
        `${ambiguous} rows share their key with delivered rows, so it cannot be known which of them are late`,
      );
    }
    const compared = { keys, seen, late, inFiles, folder };
    const renamed = await countRenamed(compared, renamable, readDelivered, signal);
    if (renamed > 0) {
      wait(
        `${renamed} rows differ from delivered rows only in ${renamable.join(', ')}. A label or another name there was probably renamed, so it cannot be known which rows are late`,
      );
    }
    const snapshot = await keys.share(request, signal);
    open.push(snapshot);
    ports.log('INFO', describe(late.count, seen.count, inFiles.count));
    if (late.count > 0) return await addRows(attempt, delivered, snapshot, late, seen.count);
    const { digest, count } = await snapshot.readKeySet(signal);
    return resultOf(attempt, delivered, snapshot.snapshot, { digest, count });
  } finally {
    await Promise.all([inFiles.close(), seen.close(), ...open.map((one) => one.close())]);
  }
}

function describe(late: number, inSource: number, delivered: number): string {
  const gone = delivered - (inSource - late);
  const left = gone === 0 ? '' : ` ${gone} delivered rows are no longer in the source; they stay.`;
  return `${late} of ${inSource} rows in the source are not in the files, which have ${delivered} rows.${left}`;
}

/** Facts that need no keys in the files. */
function describeCounts({ files, rejectedFiles }: CurrentReceipt, inSource: number): string {
  const delivered = [...files, ...rejectedFiles].reduce((sum, { rows }) => sum + rows, 0);
  const came = inSource > delivered ? `at least ${inSource - delivered}` : 'none or some';
  return `The source has ${inSource} rows now, and ${delivered} were delivered, so ${came} came late`;
}

/** @throws SluiceError `run.late_rows_wait` if there is nothing to add to, or it is not what our record says */
function findDelivered({ job, found }: SettledAttempt): CurrentReceipt {
  const { current } = job;
  if (current === null) wait('the export has another destination now than these files');
  const { manifest, etag } = found;
  const key = job.writesManifest ? manifestKey(job.names) : null;
  if (current.manifestKey !== key) wait(`the manifest is at ${current.manifestKey}, not at ${key}`);
  const isRecorded = key === null || etag === null || etag === current.manifestEtag;
  if (!isRecorded) {
    const which =
      manifest === null || isTombstone(manifest) ? 'no list of files' : 'another commit';
    wait(`the manifest in the bucket has ${which}, not the one of our record`);
  }
  return current;
}

/** Makes the result if the attempt adds nothing. */
function resultOf(
  { settlement: { settled, pending } }: SettledAttempt,
  delivered: CurrentReceipt,
  snapshot: string,
  { digest, count }: { readonly digest: string | null; readonly count: number },
): IntervalResult {
  return unchanged({ ...delivered, proof: { snapshot, settled, pending, digest, count } });
}

async function addRows(
  attempt: SettledAttempt,
  delivered: CurrentReceipt,
  snapshot: SourceSnapshot,
  late: LateRows,
  keyCount: number,
): Promise<IntervalResult> {
  const { job, destination, ports, found, signal, steps } = attempt;
  const keys = new RowKeys(snapshot.columns, snapshot.keyIndices, job.encoding.toJson);
  const pick: Parameters<typeof writeRows>[0]['pick'] = (block) => late.pick(block, keys);
  const besides = keyCount - late.count;
  const { table } = found;
  const writing = { job, snapshot, steps, destination, ports, table, pick, besides, signal };
  return writeRows(writing, async (written) => {
    late.checkPicked();
    const { columns, files, droppedRows } = written;
    const keyDigest = snapshot.keySet()?.digest ?? null;
    const base = resultOf(attempt, delivered, snapshot.snapshot, {
      digest: keyDigest,
      count: keyCount,
    });
    const counts = {
      totalRows: late.count,
      rows: files.rows,
      rejectedRows: files.rejectedRows,
      droppedRows,
      ...(written.steps && { steps: countSteps(written.steps) }),
      bytes: files.bytes,
      madeFiles: written.made.length,
    };
    if (written.made.length === 0 && written.rejectedFiles.length === 0)
      return { ...base, ...counts };
    checkColumns(found.manifest?.schema ?? delivered.recipe.schema ?? null, columns);
    const { manifestEtag: _, manifestSha256: __, ...before } = base;
    const intent: CommitIntent = {
      ...before,
      ...counts,
      era: job.era,
      // Files without a manifest have no generation but that of the ones that are replaced in place.
      generation: job.writesManifest ? job.generation : delivered.generation,
      files: [...delivered.files, ...written.made],
      rejectedFiles: [...delivered.rejectedFiles, ...written.rejectedFiles],
      deliveredDigest: null,
    };
    ports.at('commit');
    const prepared = prepareCommit(job, intent, columns);
    await ports.confirmCommit(prepared);
    return await commitFiles({ ...attempt, files, intent: prepared, columns });
  });
}

/** An interval is of one kind: @throws SluiceError `run.late_rows_wait` if the rows have other columns now */
function checkColumns(schema: Manifest['schema'] | null, columns: readonly Column[]): void {
  if (schema === null) return;
  const list = (all: Manifest['schema']) => all.map(({ name, type }) => `${name} ${plain(type)}`);
  const before = list(schema);
  const now = list(schemaOf(columns));
  if (before.join() === now.join()) return;
  const changed = now.filter((column) => !before.includes(column));
  const gone = before.filter((column) => !now.includes(column));
  wait(
    `the rows have other columns now than the files: ${changed.join(', ')} instead of ${gone.join(', ')}`,
  );
}

/** The length of a text changes nothing in a file. Padding does. */
const plain = (type: string): string =>
  type
    .replace(/^(character varying|varchar)(\(\d+\))?(?=$|\[)/, 'text')
    .replace(/^(character|bpchar)(\(\d+\))?(?=$|\[)/, 'character');
