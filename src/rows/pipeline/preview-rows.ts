import { SluiceError } from '../../foundation/domain/errors.ts';
import { parseExact } from '../../foundation/domain/exact-json.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import type { FileEncoder } from '../encoders/encoder.ts';
import { withOpenSteps } from '../sandbox/open-steps.ts';
import {
  manyRows,
  type Source,
  type SourceRequest,
  type SourceSnapshot,
} from '../sources/source.ts';
import type { Step, StepDefinition } from '../transforms/step.ts';
import type { RowTransformer } from '../transforms/transform-rows.ts';
import type { Encoding } from './interval-job.ts';
import { InfiniteValues } from './replace-infinite.ts';
import { JsonValues } from './replace-json.ts';
import { keyPlacesOf, openRowTransformer } from './transform-blocks.ts';

export interface RowSample {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** JSON values in the order of the columns. */
  readonly rows: readonly (readonly unknown[])[];
}

const hourMs = 3_600_000;
const monthMs = 30 * 24 * hourMs;
/** How far back to look for rows, nearest first: counting the whole past may be too slow. */
const reachesMs = [hourMs, 24 * hourMs, monthMs];
/** Rows are taken until they exceed this size, however few they are. */
const sampleBytes = 1024 * 1024;

/** Bytes of a row times the steps of its chain: the process that shows rows has other requests to answer. */
const maxRowWork = 1024 * 1024;

/**
 * Rows as in a JSONLines file, without those that a step drops or rejects: the first ones of the shortest
 * time before `now` that has enough of them, in the order of a run. Infinite times and JSON are as the
 * settings say. Numbers that a client would round become text.
 *
 * @throws SluiceError as a run does, and the reason of `signal`
 */
export async function previewRows(
  source: Source,
  request: Omit<SourceRequest, 'interval'>,
  definitions: readonly StepDefinition[],
  encoding: PreviewEncoding,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<RowSample> {
  const options = { intervalEndMs: wanted.now, signal };
  return withOpenSteps(definitions, options, (steps) =>
    previewWith(steps, source, request, encoding, wanted, signal),
  );
}

type PreviewEncoding = Pick<Encoding, 'openJsonLines' | 'toJson' | 'settings'>;

interface Wanted {
  readonly limit: number;
  readonly now: Instant;
}

async function previewWith(
  steps: readonly Step[],
  source: Source,
  request: Omit<SourceRequest, 'interval'>,
  { openJsonLines, toJson, settings }: PreviewEncoding,
  { limit, now }: Wanted,
  signal: AbortSignal,
): Promise<RowSample> {
  const select = steps.length === 0 ? 'rows' : 'columns';
  const snapshot = await openNewest(source, { ...request, select }, limit, now, signal);
  const transformer = steps.length === 0 ? null : openRowTransformer(steps, snapshot, toJson);
  try {
    const shown = (transformer ?? snapshot).columns;
    const columns = shown.map(({ name, sourceType }) => ({ name, type: sourceType }));
    const infinite = new InfiniteValues(shown, keyPlacesOf(snapshot), settings.infinity);
    const json = new JsonValues(shown, settings);
    const made = async (read: RowBlock) => {
      if (transformer && read.rowCount === 1) checkWork(read.bytes.length, transformer);
      const block = transformer ? (await transformer.apply(read)).block : read;
      return json.replaceIn(infinite.replaceIn(block));
    };
    const lines = await readLines(snapshot, made, openJsonLines(shown), limit, signal);
    return { columns, rows: lines.map((line) => valuesOf(line, columns)) };
  } catch (error) {
    // A run may accept this row. Here only the query's author can avoid it.
    const isLarge = error instanceof SluiceError && error.code === 'source.row_too_large';
    if (!isLarge) throw error;
    throw new SluiceError('query.invalid', `${error.detail}, too much for a preview`, error);
  } finally {
    await snapshot.close();
  }
}

/** Rows as they are before a chain, for one to try it on. */
export interface RawSample {
  /** Of the model. */
  readonly columns: readonly Column[];
  readonly keyColumns: readonly string[];
  readonly fixedColumns: readonly string[];
  /** JSON Lines. */
  readonly lines: readonly string[];
}

/**
 * Some of the newest rows of a model, with all its columns.
 *
 * @throws SluiceError, and the reason of `signal`
 */
export async function sampleRows(
  source: Source,
  request: Pick<SourceRequest, 'model' | 'teamId'>,
  openJsonLines: (columns: readonly Column[]) => FileEncoder,
  { limit, now }: Wanted,
  signal: AbortSignal,
): Promise<RawSample> {
  const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
  const wanted = { ...request, ...all, select: 'columns' } as const;
  const snapshot = await openNewest(source, wanted, limit, now, signal);
  try {
    const { columns, projection } = snapshot;
    const asRead = async (read: RowBlock) => read;
    const lines = await readLines(snapshot, asRead, openJsonLines(columns), limit, signal);
    const { keyColumns = [], fixedColumns = [] } = projection ?? {};
    return { columns, keyColumns, fixedColumns, lines };
  } finally {
    await snapshot.close();
  }
}

/** The most recent range with `limit` rows; the whole past only if shorter ranges have none. */
async function openNewest(
  source: Source,
  request: Omit<SourceRequest, 'interval'>,
  limit: number,
  now: Instant,
  signal: AbortSignal,
): Promise<SourceSnapshot> {
  const openSince = (start: Instant) =>
    source.open({ ...request, interval: { start, end: now } }, signal);
  for (const reachMs of reachesMs) {
    const snapshot = await openSince(now - reachMs);
    const rows = snapshot.totalCount ?? manyRows;
    const isEnough = rows >= limit || (reachMs === monthMs && rows > 0);
    if (isEnough) return snapshot;
    await snapshot.close();
  }
  return openSince(0);
}

async function readLines(
  snapshot: SourceSnapshot,
  blockOf: (read: RowBlock) => Promise<RowBlock>,
  encoder: FileEncoder,
  limit: number,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const made: Uint8Array[] = [];
  let rows = 0;
  let bytes = 0;
  for (const slice of snapshot.slices) {
    for await (const read of snapshot.read(slice, signal)) {
      const block = await blockOf(read);
      const rowCount = Math.min(block.rowCount, limit - rows);
      made.push(...(await encoder.write({ ...block, rowCount })));
      rows += rowCount;
      bytes += read.bytes.length;
      if (rows === limit || bytes > sampleBytes) break;
    }
    if (rows === limit || bytes > sampleBytes) break;
  }
  made.push(...(await encoder.finish()));
  return Buffer.concat(made).toString('utf8').split('\n').slice(0, -1);
}

/** A block of several rows is short, and the process has its turn between them. */
function checkWork(bytes: number, { steps }: RowTransformer): void {
  if (bytes * steps.length <= maxRowWork) return;
  const detail = `A row of ${bytes} bytes is too large for a preview with ${steps.length} steps: its bytes times the steps must be at most ${maxRowWork}. Select fewer columns, or disable steps`;
  throw new SluiceError('query.invalid', detail);
}

function valuesOf(line: string, columns: RowSample['columns']): readonly unknown[] {
  const row = parseExact(line) as Record<string, unknown>;
  return columns.map(({ name }) => row[name]);
}
