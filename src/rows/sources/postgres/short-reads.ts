import { SluiceError } from '../../../foundation/domain/errors.ts';
import { type Column, copyBlock, type RowBlock } from '../../../foundation/domain/row-block.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type {
  EarlierExport,
  KeySet,
  SecondLook,
  Slice,
  SourceRequest,
  SourceSnapshot,
} from '../source.ts';
import type { PlannedRequest, SettledAt } from './snapshot-connections.ts';
import { toSourceError } from './errors.ts';
import { KeyDigest } from './key-digest.ts';
import { PlannedRows } from './plan.ts';
import { openSnapshot, type PostgresSnapshot } from './snapshot.ts';

/** The time that runs of a model read in short snapshots after a conflict. */
const rememberedMs = 3_600_000;
/** Bytes of rows that are held until their snapshot has ended: part of the memory that each run has. */
const heldBytes = 2 * 2 ** 20;
/** The first part of an interval; later parts are shorter or longer, as it goes. */
const firstPartMs = 60_000;

const maxAttempts = 5;

export class Conflicts {
  readonly #until = new Map<string, number>();

  note(model: string): void {
    this.#until.set(model, performance.now() + rememberedMs);
  }

  has(model: string): boolean {
    return (this.#until.get(model) ?? 0) > performance.now();
  }
}

interface ShortReading extends PlannedRequest {
  readonly settled: SettledAt;
}

/** As `openSnapshot`, in parts: for a standby that ends longer reads. */
export async function openShortReads(
  reading: ShortReading,
  signal: AbortSignal,
): Promise<SourceSnapshot> {
  const { start } = reading.request.interval;
  for (let attempt = 1; ; attempt += 1) {
    try {
      // Says what the rows look like, and is older than all parts.
      const first = await openPart(reading, { start, end: start + 1 }, signal);
      await first.close();
      return new ShortReads(reading, first);
    } catch (error) {
      // A standby that has waited for as long as it may ends each read, however short, until it has caught up.
      if (!isConflict(error) || attempt === maxAttempts) throw error;
    }
  }
}

/** As `lookAgain`, in parts. Rows of different snapshots do not show which of them came late, so only equal keys are certain. */
export async function lookInParts(
  reading: ShortReading,
  earlier: EarlierExport,
  signal: AbortSignal,
): Promise<SecondLook> {
  const opened = await openShortReads(reading, signal);
  const keys = await opened.readKeySet(signal);
  const isSame = keys.count === earlier.count && keys.digest === earlier.digest;
  return { now: { ...keys, snapshot: opened.snapshot }, mayHaveLateRows: !isSame };
}

const openPart = (reading: ShortReading, interval: DataInterval, signal: AbortSignal) =>
  openSnapshot({ ...reading, request: { ...reading.request, interval } }, reading.settled, signal);

/**
 * Each part is in a snapshot that ends before its rows are passed on, however slow the destination is. A row that
 * changes meanwhile is as its part found it; if its interval column does, it may be in two parts, or none.
 */
class ShortReads extends PlannedRows implements SourceSnapshot {
  readonly typeChanges;
  readonly snapshot;
  readonly sequence = null;
  readonly takenAt;
  readonly slices: readonly Slice[];
  readonly #reading: ShortReading;
  readonly #keys = new KeyDigest();
  #counted = 0;
  #isWhole = false;

  constructor(reading: ShortReading, first: PostgresSnapshot) {
    super(first.select);
    this.typeChanges = first.typeChanges;
    this.snapshot = first.snapshot;
    this.takenAt = first.takenAt;
    this.slices = [reading.request.interval];
    this.#reading = reading;
  }

  get totalCount(): number | null {
    return this.#isWhole ? this.#counted : null;
  }

  async countRows(signal: AbortSignal): Promise<number> {
    if (this.#isWhole) return this.#counted;
    const { interval, select } = this.#reading.request;
    if (select !== 'keys') throw new Error('each part is counted when it is read');
    let counted = 0;
    await this.#eachPart(interval, signal, async (part) => {
      counted += await part.countRows(signal);
    });
    return counted;
  }

  keySet(): KeySet | null {
    return this.select.keys && this.#keys.set;
  }

  async readKeySet(signal: AbortSignal): Promise<KeySet> {
    const { interval } = this.#reading.request;
    const keys = new KeyDigest();
    await this.#eachPart(interval, signal, async (part) => {
      keys.merge(await part.readKeys(signal));
    });
    return keys.set;
  }

  /** In later snapshots: each part has its own. */
  share(request: SourceRequest, signal: AbortSignal): Promise<SourceSnapshot> {
    return openShortReads({ ...this.#reading, request }, signal);
  }

  async *read(slice: Slice, signal: AbortSignal): AsyncGenerator<RowBlock> {
    for (const parts = partsOf(slice); parts.next; ) {
      const { next } = parts;
      try {
        // Rows of one moment cannot be cut: they are passed on as they come.
        if (isShortest(next)) yield* this.#passOn(next, signal);
        else yield* await this.#hold(next, signal);
        parts.goOn();
      } catch (error) {
        parts.shorten(error);
      }
    }
    this.#isWhole = true;
  }

  async close(): Promise<void> {}

  /** Does `work` in a snapshot of each part, once for each that no conflict ended. */
  async #eachPart(
    interval: DataInterval,
    signal: AbortSignal,
    work: (part: PostgresSnapshot) => Promise<void>,
  ): Promise<void> {
    for (const parts = partsOf(interval); parts.next; ) {
      try {
        const part = await openPart(this.#reading, parts.next, signal);
        await work(part).finally(() => part.close());
        parts.goOn();
      } catch (error) {
        parts.shorten(error);
      }
    }
  }

  /** The rows of a part, whose snapshot has ended. @throws `tooMany` */
  async #hold(part: DataInterval, signal: AbortSignal): Promise<readonly RowBlock[]> {
    const blocks: RowBlock[] = [];
    let bytes = 0;
    for await (const block of this.#passOn(part, signal)) {
      bytes += block.bytes.length;
      if (bytes > heldBytes) throw tooMany;
      blocks.push(copyBlock(block));
    }
    return blocks;
  }

  /** Adds up what the part has only if all of it was read. */
  async *#passOn(part: DataInterval, signal: AbortSignal): AsyncGenerator<RowBlock> {
    const snapshot = await openPart(this.#reading, part, signal);
    let rows = 0;
    try {
      if (!isSame(snapshot.columns, this.columns)) {
        throw new SluiceError('source.unavailable', 'the columns changed while they were read');
      }
      for (const slice of snapshot.slices) {
        for await (const block of snapshot.read(slice, signal)) {
          rows += block.rowCount;
          yield block;
        }
      }
      const counted = await snapshot.countRows(signal);
      if (counted !== rows) {
        const detail = `${counted} rows were counted, but ${rows} were read`;
        throw new SluiceError('source.count_mismatch', detail);
      }
      this.#counted += counted;
      this.#keys.merge(snapshot.keys);
    } finally {
      await snapshot.close();
    }
  }
}

interface Parts {
  readonly next: DataInterval | null;
  goOn(): void;
  /** Throws the error if no shorter part could help. */
  shorten(error: unknown): void;
}

function partsOf({ start: from, end: to }: DataInterval): Parts {
  let start = from;
  let lengthMs = firstPartMs;
  const next = () => ({ start, end: Math.min(start + lengthMs, to) });
  return {
    get next() {
      return start < to ? next() : null;
    },
    goOn() {
      const part = next();
      start = part.end;
      lengthMs = (part.end - part.start) * 2;
    },
    shorten(error) {
      const part = next();
      if (isShortest(part) || !(isConflict(error) || error === tooMany)) throw error;
      lengthMs = Math.ceil((part.end - part.start) / 2);
    },
  };
}

const isConflict = (error: unknown): boolean =>
  toSourceError(error).code === 'source.recovery_conflict';

const isShortest = ({ start, end }: DataInterval): boolean => end - start <= 1;

const tooMany = new Error('too many rows to be held');

const isSame = (one: readonly Column[], other: readonly Column[]): boolean =>
  JSON.stringify(one) === JSON.stringify(other);
