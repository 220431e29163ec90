import { SluiceError } from '../../foundation/domain/errors.ts';
import { type Column, type RowBlock, rowsOf } from '../../foundation/domain/row-block.ts';
import type { SourceSnapshot } from '../sources/source.ts';
import { AnswerRoom } from '../transforms/answer-room.ts';
import type { StepTally } from '../transforms/chain-step.ts';
import { type Json, JsonObject, jsonNull, quote, textOf, trustJson } from '../transforms/json.ts';
import type { Step } from '../transforms/step.ts';
import { RowTrace } from '../transforms/trace.ts';
import type { RowTransformer } from '../transforms/transform-rows.ts';
import { takeRests } from '../transforms/turns.ts';
import { Portions } from './portions.ts';
import type { Encoding } from './interval-job.ts';
import { JsonDepths, ValueRules } from './value-rules.ts';
import { keyIndicesOf, openRowTransformer } from './write-rows.ts';

export interface RawRows extends Pick<SourceSnapshot, 'columns' | 'projection' | 'keyIndices'> {
  readonly blocks: readonly RowBlock[];
  /** True if these are all rows of their span. */
  readonly isWhole: boolean;
}

export interface Showing extends Pick<Encoding, 'openJsonLines' | 'toJson' | 'settings'> {
  readonly limit: number;
  readonly trace: boolean;
}

export interface ShownRows {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** JSON: for each row a list of its values, in the order of the columns. Empty with a trace. */
  readonly rows: readonly string[];
  /** JSON: each row before, in and after the chain; null without a trace. */
  readonly trace: readonly string[] | null;
  /** Sentences about what the answer leaves out; null: nothing. */
  readonly leftOut: string | null;
  readonly steps: readonly StepTally[];
}

/** Bytes of a row times the steps of its chain: the process that shows rows has other requests to answer. */
const maxRowWork = 1024 ** 2;

/** Applies a chain to rows, and shows them. What it makes of a row may be of any size, so few rows are made at a time. */
export async function showRows(
  raw: RawRows,
  steps: readonly Step[],
  { limit, trace, toJson, openJsonLines, settings }: Showing,
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
  toJson: Showing['toJson'],
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
  const left =
    trace.length < rows.length
      ? `Of ${rows.length} rows, only the first ${count(trace.length)} shown.`
      : null;
  return { rows: [], trace, left };
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
  const left =
    room.isFull && rows.length < limit ? `Only the newest ${count(rows.length)} shown.` : null;
  return { rows, trace: null, left };
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
