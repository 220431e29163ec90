import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '../../foundation/domain/describe-error.ts';
import { baseReasons, type Element } from '../../foundation/domain/element.ts';
import { errorCatalogue, type ErrorCode, SluiceError } from '../../foundation/domain/errors.ts';
import { settingsOfRecipe } from '../../foundation/domain/format-settings.ts';
import { planElement } from '../../rows/changes/plan-element.ts';
import { digestOf } from '../../rows/pipeline/key-spool.ts';
import { joinKeys, showKeys, valuesOfRow } from '../../rows/pipeline/row-keys.ts';
import { madeBy } from '../../rows/pipeline/read-back.ts';
import type { RenderedInterval } from '../../rows/pipeline/render-interval.ts';
import type { SequenceReading, SourceRequest } from '../../rows/sources/source.ts';
import { findSequenceEnds, type SequenceEnds } from '../../state/store/intervals/elements.ts';
import { type Receipt, receiptsAfter } from '../../state/store/intervals/receipts.ts';
import { requestOf } from './compare-rows.ts';
import { breachesOf, counted, type Finding, remedies } from './finding.ts';
import { ReplayedRows, type Verdict } from './replayed-rows.ts';
import {
  type IntervalAnswers,
  noAnswers,
  type Replay,
  type VerifiedInterval,
} from './verified-interval.ts';
import { verifyFiles } from './verify-files.ts';

const maxNamed = 5;

/** Bytes on disk for each row of both sides, and how much more than its base the table may have got. */
const [recordBytes, growth] = [64, 2];

/** The next element is a base, so the rows prove nothing. */
class BaseDue extends Error {}

interface NamedKey {
  readonly verdict: Verdict;
  key: string | null;
}

interface Opened {
  readonly interval: VerifiedInterval;
  readonly ends: SequenceEnds;
  readonly reading: SequenceReading;
  readonly rendered: RenderedInterval;
  readonly rows: ReplayedRows;
  /** The rendered files are here. */
  readonly folder: string;
}

/** Reads all rows of the source of one snapshot. Call `close`. @returns why they cannot be compared; null: there are none */
export async function openReplay(interval: VerifiedInterval): Promise<OpenReplay | string | null> {
  const { sql, batchExport, signal, renderAgain } = interval;
  const ends = await findSequenceEnds(sql, batchExport.id);
  if (ends === null) return null;
  const { base, newest } = ends;
  if (newest.destinationVersion !== batchExport.destinationVersion) return baseReasons.first;
  const element = elementOf(newest);
  const { next } = element;
  if (next === null) return baseReasons.unknown;
  if (!(await hasRoom(base))) {
    return `the temporary folder (TMPDIR) has no room for ${counted(base.rows, 'row')}`;
  }
  const folder = await mkdtemp(join(tmpdir(), 'sluice-verify-'));
  const seen: { reading?: SequenceReading; hasNewTables: boolean } = { hasNewTables: false };
  const { versionType } = element.point;
  const request = elementRequestOf(interval, newest);
  try {
    const all = { number: element.number, versionType, from: null, newTables: [] };
    const { recipe } = newest;
    const whole = { ...request, element: all };
    const rendered = await renderAgain(newest, recipe, whole, folder, signal, (reading) => {
      const planned = planNext(newest, request, reading);
      seen.reading = reading;
      seen.hasNewTables = planned.newTables.length > 0;
      // Every delete that an element should have.
      return { ...planned, from: elementOf(base).next ?? planned.from };
    });
    const { columns, keyIndices } = rendered;
    const { reading, hasNewTables } = seen;
    if (!reading) throw new Error('the source gave no state of its table');
    const bounds = { versionType, next, hasNewTables };
    const rows = new ReplayedRows(columns, keyIndices, bounds);
    await readRendered(interval, newest, rendered, folder, columns, (values) =>
      rows.add(values, -1),
    );
    return new OpenReplay({ interval, ends, reading, rendered, rows, folder });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    if (error instanceof BaseDue) return error.message;
    // A table that allows no changes any more, or a step that is gone.
    if (error instanceof SluiceError && !error.spec.retryable) return describeError(error);
    throw error;
  }
}

/** The elements from the newest base on, beside the rows of the source. */
export class OpenReplay implements Replay {
  readonly #opened: Opened;
  #isWhole = true;

  constructor(opened: Opened) {
    this.#opened = opened;
  }

  takes(receipt: Receipt): boolean {
    const { base, newest } = this.#opened.ends;
    return base.interval.end <= receipt.interval.end && receipt.interval.end <= newest.interval.end;
  }

  async read(interval: VerifiedInterval, receipt: Receipt): Promise<readonly string[]> {
    const { rendered, rows } = this.#opened;
    const { number } = elementOf(receipt);
    const faults = await verifyFiles(
      interval,
      receipt,
      madeBy(receipt.recipe),
      rendered.columns,
      (_, __, values) => rows.add(values, number),
      () => {},
    );
    // Its rows may have been added in part.
    this.#isWhole &&= faults.length === 0;
    return faults;
  }

  /** Compares what the elements give together with the source. */
  async compare(): Promise<IntervalAnswers> {
    const { interval, ends, reading, rows } = this.#opened;
    if (!this.#isWhole) return { ...noAnswers, unproven: describeCounted('files are damaged') };
    const counts = new Map<Verdict, number>();
    const named = new Map<string, NamedKey>();
    await rows.compare((verdict, digest) => {
      const count = (counts.get(verdict) ?? 0) + 1;
      counts.set(verdict, count);
      const isUsual = verdict === 'equal' || verdict === 'pending';
      if (!isUsual && count <= maxNamed) named.set(digest, { verdict, key: null });
    });
    if (named.size > 0) await this.#nameKeys(named);
    const { isSettled, deletesBy } = reading;
    const isStrict = deletesBy === 'tombstones' && !this.#hasLessRows();
    const findings: Finding[] = [];
    const remarks: string[] = [];
    const judge = (verdict: Verdict, what: string, isBreach: boolean, remedy: string) => {
      const count = counts.get(verdict) ?? 0;
      if (count === 0) return;
      const keys = [...named.values()].flatMap((one) =>
        one.verdict === verdict ? (one.key ?? []) : [],
      );
      const text = `${counted(count, 'row')} ${what}: ${keys.join(', ')}${count > maxNamed ? ' …' : ''}`;
      if (isBreach) findings.push(breachesOf(interval.batchExport.id)('I11', text, remedy));
      else remarks.push(text);
    };
    const last = `element ${elementOf(ends.newest).number}`;
    const [off, twice] = [
      remedyOf('model.version_without_trigger'),
      remedyOf('model.key_not_unique'),
    ];
    const other = `with the same version as in the source, but with other values, at ${last}`;
    judge('altered', other, isSettled, off);
    judge('lost', `of the source missing at ${last}`, isSettled, remedies.I11);
    judge('undeleted', `deleted in the source, but not at ${last}`, true, remedies.I11);
    judge('gone', 'gone from the source without a word', isStrict, off);
    judge('twice', 'with the key of another row', true, twice);
    const unproven = isSettled
      ? null
      : 'programs set the version of this model, so changes may be lost without a trace';
    return {
      ...noAnswers,
      findings,
      remarks,
      gone: isStrict ? 0 : (counts.get('gone') ?? 0),
      pending: counts.get('pending') ?? 0,
      unproven,
    };
  }

  #hasLessRows(): boolean {
    const { droppedRows, rejectedFiles } = this.#opened.rendered;
    return droppedRows > 0 || rejectedFiles.length > 0;
  }

  /** Reads both sides again, for the keys of some digests. */
  async #nameKeys(named: ReadonlyMap<string, NamedKey>): Promise<void> {
    const { interval, ends, rendered, folder } = this.#opened;
    const columns = rendered.keyIndices.flatMap((index) => rendered.columns[index] ?? []);
    const see = (key: string) => {
      const one = named.get(digestOf(key));
      if (one) one.key = showKeys(key);
    };
    await readRendered(interval, ends.newest, rendered, folder, columns, (values) =>
      see(joinKeys(values)),
    );
    for await (const receipt of receiptsAfter(interval.sql, ends.base.exportId)) {
      if ([...named.values()].every(({ key }) => key !== null)) return;
      if (this.takes(receipt)) {
        await verifyFiles(interval, receipt, madeBy(receipt.recipe), columns, see, () => {});
      }
    }
  }

  async close(): Promise<void> {
    const { rows, folder } = this.#opened;
    await rows.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The gap of the proof if the rows were not compared. */
export const describeCounted = (why: string): string =>
  `the rows of its elements were only counted: ${why}`;

const remedyOf = (code: ErrorCode): string =>
  `${code}: ${errorCatalogue[code].remedy} Then raise new_base of the export.`;

/** Reads the files that were made of the rows of the source, but for rows that a step rejected: they have only their keys. */
async function readRendered(
  { readRows }: VerifiedInterval,
  { recipe }: Receipt,
  { files, rejectedFiles }: RenderedInterval,
  folder: string,
  columns: RenderedInterval['columns'],
  tell: (values: readonly (string | null)[]) => unknown,
): Promise<void> {
  const maker = madeBy(recipe);
  const all = [
    ...files.map(({ key }) => ({ key, by: maker })),
    ...rejectedFiles.map(({ key }) => ({ key, by: 'rejected' as const })),
  ];
  for (const { key, by } of all) {
    for await (const row of readRows(join(folder, key), by, columns)) {
      if (row.includes(undefined)) continue;
      const waits = tell(valuesOfRow(row, columns));
      if (waits) await waits;
    }
  }
}

function elementOf({ element }: Receipt): Element {
  if (!element) throw new Error('the receipt has no element');
  return element;
}

function elementRequestOf(interval: VerifiedInterval, receipt: Receipt): SourceRequest {
  const isText = settingsOfRecipe(receipt.recipe).csvArrays === 'postgres';
  return { ...requestOf(interval, receipt), ...(isText && { nested: 'text' as const }) };
}

/** The element that would come next. @throws BaseDue */
function planNext(newest: Receipt, request: SourceRequest, reading: SequenceReading) {
  const { recipe, interval, era } = newest;
  const element = elementOf(newest);
  const sequence = {
    last: { element, era, isHere: true, interval },
    begun: [],
    newBase: element.newBase,
  };
  const chain = recipe.chain ? { recipe: recipe.chain } : null;
  const planned = planElement({ sequence, interval, era, request, chain }, reading);
  const { base } = planned.element;
  if (base !== null) throw new BaseDue(`the next element is a base, because ${baseReasons[base]}`);
  return planned.request;
}

/** Says whether the rows of the source fit beside what is there. */
async function hasRoom({ rows, bytes }: Receipt): Promise<boolean> {
  const { bavail, bsize } = await statfs(tmpdir());
  return bavail * bsize > growth * (bytes + 2 * recordBytes * rows);
}
