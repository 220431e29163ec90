import { SluiceError } from '../../foundation/domain/errors.ts';
import { manifestKey } from '../../foundation/domain/object-keys.ts';
import {
  type CommitIntent,
  type CurrentReceipt,
  type IntervalResult,
  unchanged,
} from '../../foundation/domain/receipt.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { SourceSnapshot } from '../sources/source.ts';
import { commitFiles, schemaOf } from './commit.ts';
import { requestOf, type SettledAttempt } from './interval-job.ts';
import { digestOf, KeySpool, RowBits } from './key-spool.ts';
import { isTombstone, type Manifest } from './manifest.ts';
import { withSchema } from './missing-rows.ts';
import { readDeliveredKeys } from './read-back.ts';
import { RowKeys, textOfKeys } from './row-keys.ts';
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
  const inFiles = new KeySpool();
  const seen = new KeySpool();
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
    const compared = { keys, seen, late, inFiles };
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
  const rest = gone === 0 ? '' : ` ${gone} delivered rows are no longer in the source; they stay.`;
  return `${late} of ${inSource} rows in the source are not in the files, which have ${delivered} rows.${rest}`;
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
    const proof = { digest: snapshot.keySet()?.digest ?? null, count: keyCount };
    const base = resultOf(attempt, delivered, snapshot.snapshot, proof);
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
    return await commitFiles({ ...attempt, files, intent, columns });
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

/** The sum of digests of keys, whatever their order. */
class DigestSum {
  readonly #sums = new Int32Array(4);

  add(digest: string): void {
    const bytes = Buffer.from(digest, 'latin1');
    for (let lane = 0; lane < this.#sums.length; lane += 1) {
      this.#sums[lane] = (this.#sums[lane] as number) + bytes.readInt32LE(lane * 4);
    }
  }

  equals(other: DigestSum): boolean {
    return this.#sums.every((sum, lane) => sum === other.#sums[lane]);
  }
}

class LateRows {
  readonly #rows = new RowBits();
  readonly #expected = new DigestSum();
  readonly #picked = new DigestSum();
  #row = 0;

  get count(): number {
    return this.#rows.count;
  }

  add(row: number, digest: string): void {
    this.#rows.add(row);
    this.#expected.add(digest);
  }

  /** The late rows of the next block. */
  pick(block: RowBlock, keys: RowKeys): RowBlock {
    const indices: number[] = [];
    for (let row = 0; row < block.rowCount; row += 1, this.#row += 1) {
      if (!this.#rows.has(this.#row)) continue;
      indices.push(row);
      this.#picked.add(digestOf(keys.keyOf(block, row)));
    }
    return rowsOf(block, indices);
  }

  /** @throws SluiceError `source.count_mismatch` if the source gave its rows in another order than its keys */
  checkPicked(): void {
    if (this.#picked.equals(this.#expected)) return;
    const detail = 'the late rows that were read are not those whose keys are missing';
    throw new SluiceError('source.count_mismatch', detail);
  }
}

/** Some rows of a block, in its order; the bytes are shared. */
function rowsOf(block: RowBlock, rows: readonly number[]): RowBlock {
  if (rows.length === block.rowCount) return block;
  const width = block.columns.length;
  const offsets = new Int32Array(rows.length * width);
  const lengths = new Int32Array(rows.length * width);
  for (const [index, row] of rows.entries()) {
    const from = row * width;
    offsets.set(block.offsets.subarray(from, from + width), index * width);
    lengths.set(block.lengths.subarray(from, from + width), index * width);
  }
  return { ...block, rowCount: rows.length, offsets, lengths };
}

async function readSourceKeys(
  keys: SourceSnapshot,
  seen: KeySpool,
  without: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  for (const slice of keys.slices) {
    for await (const block of keys.read(slice, signal)) {
      for (let row = 0; row < block.rowCount; row += 1) {
        const waits = seen.add(textOfKeys(block, row, without));
        if (waits) await waits;
      }
    }
  }
}

/**
 * Counts the rows that seem late only because a name in their keys was changed, such as the label of an enum: beside that name
 * they have the key of a delivered row that the source no longer has.
 *
 * @param renamable the key columns with such names
 * @param readDelivered reads the delivered keys in some columns
 */
async function countRenamed(
  { keys, seen, late, inFiles }: ComparedKeys,
  renamable: readonly string[],
  readDelivered: (into: KeySpool, columns: readonly Column[]) => Promise<string | null>,
  signal: AbortSignal,
): Promise<number> {
  const gone = inFiles.count - (seen.count - late.count);
  if (gone === 0 || renamable.length === 0) return 0;
  const lasting = keys.columns.filter(({ name }) => !renamable.includes(name));
  if (lasting.length === 0) return Math.min(gone, late.count);
  const [source, files] = [new KeySpool(), new KeySpool()];
  try {
    await readSourceKeys(keys, source, renamable, signal);
    const fault = await readDelivered(files, lasting);
    if (fault !== null) throw new SluiceError('run.late_rows_wait', fault);
    let others = 0;
    await source.subtract(files, () => {
      others += 1;
    });
    return late.count - others;
  } finally {
    await Promise.all([source.close(), files.close()]);
  }
}

interface ComparedKeys {
  readonly keys: SourceSnapshot;
  readonly seen: KeySpool;
  readonly late: LateRows;
  readonly inFiles: KeySpool;
}

/** Finds the rows of an interval that its files lack. @param seen gets the keys of the source */
async function findLateRows(
  keys: SourceSnapshot,
  seen: KeySpool,
  delivered: KeySpool,
  signal: AbortSignal,
) {
  await readSourceKeys(keys, seen, [], signal);
  const late = new LateRows();
  /** Rows whose key the files have, but less often: rows of a view may share a key. */
  let ambiguous = 0;
  await seen.subtract(delivered, ({ row, digest }, isKnown) => {
    if (isKnown) ambiguous += 1;
    else late.add(row, digest);
  });
  return { late, ambiguous };
}
