import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Model } from '../../foundation/domain/model.ts';
import {
  type Column,
  copyBlock,
  type RowBlock,
  rowsOf,
} from '../../foundation/domain/row-block.ts';
import type { Instant } from '../../foundation/domain/time.ts';
import { manyRows, type SourceSnapshot } from '../sources/source.ts';
import type { StepTally } from '../transforms/chain-step.ts';
import { type Json, JsonObject, jsonNull, quote, textOf, trustJson } from '../transforms/json.ts';
import { type StepDefinition, withOpenSteps } from '../transforms/own-steps.ts';
import type { Step } from '../transforms/step.ts';
import { AnswerRoom, RowTrace } from '../transforms/trace.ts';
import { type RowTransformer, takeRests } from '../transforms/transform-rows.ts';
import type { Encoding } from './interval-job.ts';
import { Portions } from './portions.ts';
import { JsonDepths, ValueRules } from './value-rules.ts';
import { keyIndicesOf, openRowTransformer } from './write-rows.ts';

interface RawRows extends Pick<SourceSnapshot, 'columns' | 'projection' | 'keyIndices'> {
  readonly blocks: readonly RowBlock[];
  /** True if these are all rows of their span. */
  readonly isWhole: boolean;
}

interface ShownRows {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** JSON: for each row a list of its values, in the order of the columns. Empty with a trace. */
  readonly rows: readonly string[];
  /** JSON: each row before, in and after the chain; null without a trace. */
  readonly trace: readonly string[] | null;
  /** Sentences about what the answer leaves out; null: nothing. */
  readonly leftOut: string | null;
  readonly steps: readonly StepTally[];
}

const hourMs = 3_600_000;
const monthMs = 30 * 24 * hourMs;
/** The spans in which to look for rows, nearest first: counting the whole past may be too slow. */
const reachesMs = [hourMs, 24 * hourMs, monthMs];
/** Rows are read until they exceed this size: those that are shown, and older ones of the same span. */
const readBytes = 4 * 1024 ** 2;
/** A span that has many more rows than are wanted is halved at most this often. */
const maxHalvings = 20;

export interface Preview extends Pick<Encoding, 'openJsonLines' | 'toJson' | 'settings'> {
  readonly rows: RawRows | NewestRows;
  readonly limit: number;
  readonly trace: boolean;
  readonly now: Instant;
}

export interface NewestRows {
  /** True if no row is newer than another: then they are any. */
  readonly isWhole: boolean;
  /** Opens the rows from so many milliseconds before now on; null: all. */
  open(
    reachMs: number | null,
    select: 'rows' | 'columns',
    signal: AbortSignal,
  ): Promise<SourceSnapshot>;
  /** Gives work at the source its time. */
  patiently<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

/**
 * Shows rows as in a JSONLines file, without those that a step drops or rejects, in the order of a run; of a source its newest ones.
 * There are fewer than wanted if the chain drops most of what can be read. With a trace it shows the newest rows that were read, and
 * what each step makes of them. Infinite times and JSON are as the settings say. Numbers that a client would round become text.
 *
 * @throws SluiceError as a run does, and the reason of `signal`
 */
export async function previewRows(
  definitions: readonly StepDefinition[],
  preview: Preview,
  signal: AbortSignal,
): Promise<ShownRows> {
  const { rows } = preview;
  const options = { intervalEndMs: preview.now, signal };
  try {
    return await withOpenSteps(definitions, options, async (steps) => {
      const show = (raw: RawRows) => showRows(raw, steps, preview, signal);
      if ('blocks' in rows) return show(rows);
      const isTransformed = preview.trace || steps.length > 0;
      const mayDrop = steps.length > 0 && !preview.trace;
      return readNewest(rows, isTransformed ? 'columns' : 'rows', preview.limit, mayDrop, show);
    });
  } catch (error) {
    // A run may accept this row. Here only the query's author can avoid it.
    const isLarge = error instanceof SluiceError && error.code === 'source.row_too_large';
    if (!isLarge) throw error;
    throw new SluiceError('query.invalid', `${error.detail}, too much for a preview`, error);
  }
}

/** Rows of a caller, as a source has them: each column is JSON, and null if a row lacks it. Columns that place rows are fixed. */
export function givenRows(
  rows: readonly Readonly<Record<string, unknown>>[],
  { keyColumns, tenantColumn, intervalColumn }: Model,
): RawRows {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = names.map((name): Column => ({ name, type: 'json', sourceType: 'json' }));
  const outputs = names.map((name) => ({ name, column: name, path: [] }));
  const fixedColumns = [...keyColumns, tenantColumn, intervalColumn ?? tenantColumn];
  const fields = rows.flatMap((row) =>
    names.map((name) => {
      const value = Object.hasOwn(row, name) ? row[name] : null;
      return Buffer.from(value === null ? '' : JSON.stringify(value));
    }),
  );
  const lengths = Int32Array.from(fields, ({ length }) => length || -1);
  let end = 0;
  const offsets = Int32Array.from(fields, ({ length }) => {
    end += length;
    return end - length;
  });
  const rowCount = names.length === 0 ? 0 : rows.length;
  return {
    columns,
    projection: { outputs, keyColumns, fixedColumns },
    keyIndices: [],
    blocks: [{ columns, rowCount, bytes: Buffer.concat(fields), offsets, lengths }],
    isWhole: true,
  };
}

/**
 * Reads the newest rows: those of a span that has enough, and not many more. If a chain drops so many that too few are
 * left, the span becomes longer, as long as it can be read to its end. The source is not kept while the chain works.
 */
async function readNewest(
  { isWhole: isAny, open, patiently }: NewestRows,
  select: 'rows' | 'columns',
  limit: number,
  mayDrop: boolean,
  show: (raw: RawRows) => Promise<ShownRows>,
): Promise<ShownRows> {
  const first = await patiently(async (signal) => {
    const openFrom = (reachMs: number | null) => open(reachMs, select, signal);
    const newest = isAny
      ? { snapshot: await openFrom(null), spanMs: null }
      : await openNewest(openFrom, limit);
    return { raw: await readAll(newest.snapshot, signal), spanMs: newest.spanMs };
  });
  let { spanMs } = first;
  let best = await show(first.raw);
  for (let { isWhole } = first.raw; mayDrop && isWhole && best.rows.length < limit; ) {
    if (spanMs === null || spanMs >= monthMs || best.leftOut !== null) break;
    const reachMs = Math.min(spanMs * 4, monthMs);
    spanMs = reachMs;
    const longer = await patiently(async (signal) =>
      readAll(await open(reachMs, select, signal), signal),
    );
    ({ isWhole } = longer);
    if (isWhole) best = await show(longer);
  }
  return best;
}

/** The shortest span with `limit` rows, within a factor of two; the whole past only if shorter ones have none. */
async function openNewest(
  openFrom: (reachMs: number | null) => Promise<SourceSnapshot>,
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

/** Reads the rows of a snapshot until they exceed a size, and closes it. */
async function readAll(snapshot: SourceSnapshot, signal: AbortSignal): Promise<RawRows> {
  const { columns, projection, keyIndices, slices } = snapshot;
  const blocks: RowBlock[] = [];
  let bytes = 0;
  try {
    for (const slice of slices) {
      for await (const block of snapshot.read(slice, signal)) {
        blocks.push(copyBlock(block));
        bytes += block.bytes.length;
        if (bytes > readBytes) return { columns, projection, keyIndices, blocks, isWhole: false };
      }
    }
    return { columns, projection, keyIndices, blocks, isWhole: true };
  } finally {
    await snapshot.close();
  }
}

/** Bytes of a row times the steps of its chain: the process that shows rows has other requests to answer. */
const maxRowWork = 1024 ** 2;

/** Applies a chain to rows, and shows them. What it makes of a row may be of any size, so few rows are made at a time. */
export async function showRows(
  raw: RawRows,
  steps: readonly Step[],
  { limit, trace, toJson, openJsonLines, settings }: Preview,
  signal: AbortSignal,
): Promise<ShownRows> {
  const waits = steps.some(({ kind }) => kind === 'batch');
  // Steps that work in another process leave this one to others anyway.
  const turns = waits ? null : takeRests(signal);
  const transformer =
    trace || steps.length > 0 ? openRowTransformer(steps, raw, toJson, signal, turns) : null;
  const shown = (transformer ?? raw).columns;
  const rules = new ValueRules(shown, keyIndicesOf(raw), { settings, toJson });
  const linesOf = async (block: RowBlock) => {
    const encoder = openJsonLines(shown);
    const bytes = await encoder.write(await rules.apply(block));
    const all = Buffer.concat([...bytes, ...(await encoder.finish())]);
    return all.toString('utf8').split('\n').slice(0, -1);
  };
  const columns = shown.map(({ name, sourceType }) => ({ name, type: sourceType }));
  const room = new AnswerRoom();
  const answer =
    trace && transformer
      ? await traceRows(raw, transformer, limit, linesOf, room, toJson)
      : await newestRows(raw, transformer, shown, limit, linesOf, room);
  const leftOut = describeLeft(answer.left, raw.isWhole, room);
  return { ...answer, columns, leftOut, steps: transformer?.steps ?? [] };
}

type LinesOf = (block: RowBlock) => Promise<readonly string[]>;

async function traceRows(
  raw: RawRows,
  transformer: RowTransformer,
  limit: number,
  linesOf: LinesOf,
  room: AnswerRoom,
  toJson: Encoding['toJson'],
) {
  const depths = new JsonDepths(raw.columns, keyIndicesOf(raw), toJson);
  const traced = new RowTrace(transformer, room);
  const rows = lastRows(raw, limit);
  const trace: string[] = [];
  for (const block of rows) {
    if (room.isFull) break;
    checkWork(block, transformer);
    await depths.check(block);
    const row = transformer.read(block, 0);
    const before = raw.columns.map(({ name }) => [name, row.get(name)] as const);
    const shown = showObject(before, room);
    const [line] = await linesOf((await transformer.apply(block)).block);
    trace.push(traced.take(shown, line === undefined ? null : showObject(membersOf(line), room)));
  }
  const rest =
    trace.length < rows.length
      ? `Of ${rows.length} rows, only the first ${count(trace.length)} shown.`
      : null;
  return { rows: [], trace, left: rest };
}

/** The newest row gets the room first, and the chain makes no more rows than are shown. */
async function newestRows(
  { blocks }: RawRows,
  transformer: RowTransformer | null,
  columns: readonly Column[],
  limit: number,
  linesOf: LinesOf,
  room: AnswerRoom,
) {
  const portions = new Portions();
  const rows: string[] = [];
  for (const block of blocks.toReversed()) {
    if (transformer && block.rowCount === 1) checkWork(block, transformer);
    for (const part of transformer ? portions.fromEnd(block) : [block]) {
      if (rows.length === limit || room.isFull) break;
      const transformed = transformer ? await transformer.apply(part) : null;
      if (transformed) portions.see([transformed]);
      for (const line of (await linesOf(transformed?.block ?? part)).toReversed()) {
        if (rows.length === limit || room.isFull) break;
        const members = membersOf(line);
        const values = columns.map(({ name }) => room.show(textOf(members.get(name) ?? jsonNull)));
        rows.unshift(`[${values.join()}]`);
      }
    }
  }
  const rest =
    room.isFull && rows.length < limit ? `Only the newest ${count(rows.length)} shown.` : null;
  return { rows, trace: null, left: rest };
}

const lastRows = ({ blocks }: RawRows, limit: number): readonly RowBlock[] =>
  blocks
    .flatMap((block) =>
      Array.from({ length: block.rowCount }, (_, row) => rowsOf(block, row, row + 1)),
    )
    .slice(-limit);

const membersOf = (line: string) => new JsonObject(trustJson(line)).members;

function showObject(
  members: Iterable<readonly [string, Json | undefined]>,
  room: AnswerRoom,
): string {
  const shown = [...members].map(([name, value]) => {
    // A row of a caller has the names of all of them.
    room.takes(name.length);
    return `${quote(name)}:${room.show(textOf(value ?? jsonNull))}`;
  });
  return `{${shown.join()}}`;
}

const count = (rows: number) => (rows === 1 ? 'row is' : `${rows} rows are`);

function describeLeft(
  shown: string | null,
  isWhole: boolean,
  { hasCut }: AnswerRoom,
): string | null {
  const isLarge = shown !== null || hasCut;
  const parts = [
    shown ?? '',
    hasCut ? 'Long values show their beginning and their size.' : '',
    isLarge ? 'An answer has at most 16 MiB: ask for fewer rows or shorter values.' : '',
    isWhole ? '' : 'Newer rows were not read, because a preview reads at most 4 MiB.',
  ];
  return parts.filter((part) => part !== '').join(' ') || null;
}

/** A block of several rows is short, and the process has its turn between them. */
function checkWork({ lengths }: RowBlock, { steps }: RowTransformer): void {
  const length = lengths.reduce((sum, bytes) => sum + Math.max(0, bytes), 0);
  if (length * steps.length <= maxRowWork) return;
  const detail = `A row of ${length} bytes is too large for a preview with ${steps.length} steps: its bytes times the steps must be at most ${maxRowWork}. Select fewer columns, or disable steps`;
  throw new SluiceError('query.invalid', detail);
}
