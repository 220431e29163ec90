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
import { JsonDepths } from './json-depths.ts';
import { InfiniteValues } from './replace-infinite.ts';
import { JsonValues } from './replace-json.ts';
import { keyIndicesOf, openRowTransformer } from './transform-blocks.ts';

export interface RowSample {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** JSON values in the order of the columns. */
  readonly rows: readonly (readonly unknown[])[];
}

const hourMs = 3_600_000;
const monthMs = 30 * 24 * hourMs;
/** How far back to look for rows, nearest first: counting the whole past may be too slow. */
const reachesMs = [hourMs, 24 * hourMs, monthMs];
/** Maximum size of the rows that are shown, unless one alone is larger. */
const sampleBytes = 1024 * 1024;
/** Rows are read until they exceed this size: those that are shown, and older ones of the same span. */
const readBytes = 4 * sampleBytes;
/** A span that has many more rows than are wanted is halved at most this often. */
const maxHalvings = 20;

/** Bytes of a row times the steps of its chain: the process that shows rows has other requests to answer. */
const maxRowWork = 1024 * 1024;

/**
 * The newest rows before `now` as in a JSONLines file, without those that a step drops or rejects, in the order of a
 * run. There are fewer than wanted if the chain drops most of what can be read. Infinite times and JSON are as the
 * settings say. Numbers that a client would round become text.
 *
 * @throws SluiceError as a run does, and the reason of `signal`
 */
export async function previewRows(
  source: Source,
  definitions: readonly StepDefinition[],
  preview: Preview,
  signal: AbortSignal,
): Promise<RowSample> {
  const options = { intervalEndMs: preview.now, signal };
  return withOpenSteps(definitions, options, (steps) =>
    previewWith(source, steps, preview, signal),
  );
}

/** Which rows are shown, and how. */
interface Preview extends Pick<Encoding, 'openJsonLines' | 'toJson' | 'settings'> {
  readonly request: Omit<SourceRequest, 'interval'>;
  readonly limit: number;
  readonly now: Instant;
}

async function previewWith(
  source: Source,
  steps: readonly Step[],
  { request, limit, now, openJsonLines, toJson, settings }: Preview,
  signal: AbortSignal,
): Promise<RowSample> {
  const select = steps.length === 0 ? 'rows' : 'columns';
  const openFrom = openerOf(source, { ...request, select }, now, signal);
  const read = async (snapshot: SourceSnapshot): Promise<RowSample & ReadEnd> => {
    const transformer = steps.length === 0 ? null : openRowTransformer(steps, snapshot, toJson);
    const shown = (transformer ?? snapshot).columns;
    const columns = shown.map(({ name, sourceType }) => ({ name, type: sourceType }));
    const infinite = new InfiniteValues(shown, keyIndicesOf(snapshot), settings.infinity);
    const json = new JsonValues(shown, settings);
    const depths = new JsonDepths(shown, keyIndicesOf(snapshot), toJson);
    const made = async (block: RowBlock) => {
      if (transformer && block.rowCount === 1) checkWork(block.bytes.length, transformer);
      const changed = transformer ? (await transformer.apply(block)).block : block;
      await depths.check(changed);
      return json.replaceIn(infinite.replaceIn(changed));
    };
    const { lines, isWhole } = await readLines(snapshot, made, openJsonLines(shown), limit, signal);
    return { columns, rows: lines.map((line) => valuesOf(line, columns)), isWhole };
  };
  try {
    const { columns, rows } = await readNewest(openFrom, limit, steps.length > 0, read);
    return { columns, rows };
  } catch (error) {
    // A run may accept this row. Here only the query's author can avoid it.
    const isLarge = error instanceof SluiceError && error.code === 'source.row_too_large';
    if (!isLarge) throw error;
    throw new SluiceError('query.invalid', `${error.detail}, too much for a preview`, error);
  }
}

/** Whether all rows of the snapshot were read. */
interface ReadEnd {
  readonly isWhole: boolean;
}

/** Rows as they are before a chain, for one to try it on. */
export interface RawSample {
  /** The columns of the model. */
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
  request: Pick<SourceRequest, 'model' | 'tenantKey'>,
  {
    limit,
    now,
    openJsonLines,
    toJson,
  }: Pick<Preview, 'limit' | 'now' | 'openJsonLines' | 'toJson'>,
  signal: AbortSignal,
): Promise<RawSample> {
  const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
  const wanted = { ...request, ...all, select: 'columns' } as const;
  const openFrom = openerOf(source, wanted, now, signal);
  return readNewest(openFrom, limit, false, async (snapshot) => {
    const { columns, projection } = snapshot;
    const depths = new JsonDepths(columns, keyIndicesOf(snapshot), toJson);
    const asRead = async (read: RowBlock) => {
      await depths.check(read);
      return read;
    };
    const encoder = openJsonLines(columns);
    const { lines, isWhole } = await readLines(snapshot, asRead, encoder, limit, signal);
    const { keyColumns = [], fixedColumns = [] } = projection ?? {};
    return { columns, keyColumns, fixedColumns, lines, rows: lines, isWhole };
  });
}

/** Opens the rows from so many milliseconds before now on; null: all. */
type OpenFrom = (reachMs: number | null) => Promise<SourceSnapshot>;

const openerOf =
  (
    source: Source,
    request: Omit<SourceRequest, 'interval'>,
    now: Instant,
    signal: AbortSignal,
  ): OpenFrom =>
  (reachMs) =>
    source.open(
      { ...request, interval: { start: reachMs === null ? 0 : now - reachMs, end: now } },
      signal,
    );

/**
 * Reads the newest rows: those of a span that has enough, and not many more. If a chain drops so many that too few are
 * left, the span becomes longer, as long as it can be read to its end.
 */
async function readNewest<T extends ReadEnd & { readonly rows: readonly unknown[] }>(
  openFrom: OpenFrom,
  limit: number,
  mayDrop: boolean,
  read: (snapshot: SourceSnapshot) => Promise<T>,
): Promise<T> {
  const readAndClose = (snapshot: SourceSnapshot) => read(snapshot).finally(() => snapshot.close());
  const found = await openNewest(openFrom, limit);
  let best = await readAndClose(found.snapshot);
  for (let { spanMs } = found; mayDrop && best.isWhole && best.rows.length < limit; ) {
    if (spanMs === null || spanMs >= monthMs) break;
    spanMs = Math.min(spanMs * 4, monthMs);
    const longer = await readAndClose(await openFrom(spanMs));
    if (!longer.isWhole) break;
    best = longer;
  }
  return best;
}

/** The shortest span with `limit` rows, within a factor of two; the whole past only if shorter ones have none. */
async function openNewest(
  openFrom: OpenFrom,
  limit: number,
): Promise<{ readonly snapshot: SourceSnapshot; readonly spanMs: number | null }> {
  const countOf = ({ totalCount }: SourceSnapshot) => totalCount ?? manyRows;
  for (const reachMs of reachesMs) {
    let snapshot = await openFrom(reachMs);
    const rows = countOf(snapshot);
    if (rows < limit && !(reachMs === monthMs && rows > 0)) {
      await snapshot.close();
      continue;
    }
    let [enough, tooFew] = [reachMs, 0];
    for (let tries = 0; tries < maxHalvings && countOf(snapshot) > 2 * limit; tries += 1) {
      const middle = Math.ceil((enough + tooFew) / 2);
      if (middle === enough) break;
      const shorter = await openFrom(middle);
      const isEnough = countOf(shorter) >= limit;
      await (isEnough ? snapshot : shorter).close();
      if (isEnough) [snapshot, enough] = [shorter, middle];
      else tooFew = middle;
    }
    return { snapshot, spanMs: enough };
  }
  return { snapshot: await openFrom(null), spanMs: null };
}

/** The last `limit` rows of a snapshot that can be read, or fewer if they are large. */
async function readLines(
  snapshot: SourceSnapshot,
  blockOf: (read: RowBlock) => Promise<RowBlock>,
  encoder: FileEncoder,
  limit: number,
  signal: AbortSignal,
): Promise<ReadEnd & { readonly lines: readonly string[] }> {
  const made: Uint8Array[] = [];
  let bytes = 0;
  for (const slice of snapshot.slices) {
    for await (const read of snapshot.read(slice, signal)) {
      made.push(...(await encoder.write(await blockOf(read))));
      bytes += read.bytes.length;
      if (bytes > readBytes) break;
    }
    if (bytes > readBytes) break;
  }
  made.push(...(await encoder.finish()));
  const lines = Buffer.concat(made).toString('utf8').split('\n').slice(0, -1);
  let from = Math.max(0, lines.length - limit);
  let left = sampleBytes;
  for (let at = lines.length - 1; at >= from; at -= 1) {
    left -= Buffer.byteLength(lines[at] ?? '');
    if (left < 0 && at < lines.length - 1) from = at + 1;
  }
  return { lines: lines.slice(from), isWhole: bytes <= readBytes };
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
