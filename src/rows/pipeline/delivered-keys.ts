import { createHash } from 'node:crypto';
import { changeColumns, changeOps, describeIncomparable } from '../../foundation/domain/element.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import type { Column, RowBlock } from '../../foundation/domain/row-block.ts';
import type { SourceSnapshot } from '../sources/source.ts';
import type { RunPorts, SettledAttempt } from './interval-job.ts';
import type { RecordedFiles } from '../../foundation/domain/receipt.ts';
import { digestOf } from './key-spool.ts';
import { splitKeys, textOfKeys } from './row-keys.ts';
import { readDeliveredKeys } from './read-back.ts';
import { RowSpool, type SpoolLimits } from './row-spool.ts';

/** Keys are compared group by group: a group of 10 million keys has 10,000. */
const groupCount = 1_024;
const givenAtOnce = 500;

/** The keys that a reader has once it has applied what is added, on local disk. Call `close` at the end. */
export class KeyReplay {
  readonly #spool: RowSpool;
  readonly #offsets = Int32Array.of(0);

  constructor(limits?: SpoolLimits) {
    this.#spool = new RowSpool([{ name: 'key', type: 'text', sourceType: 'text' }], limits);
  }

  /** A row with this key. @returns what to wait for before the next one */
  put(key: string): Promise<void> | undefined {
    return this.#add('+', key);
  }

  /** The key leaves those that remain: its row is deleted already, or the source still has it. */
  take(key: string): Promise<void> | undefined {
    return this.#add('-', key);
  }

  #add(sign: '+' | '-', key: string): Promise<void> | undefined {
    const bytes = Buffer.from(sign + key);
    const digest = digestOf(key);
    const group = ((digest.charCodeAt(0) << 8) | digest.charCodeAt(1)) % groupCount;
    const block = { columns: [], rowCount: 1, bytes, offsets: this.#offsets };
    return this.#spool.add(group, { ...block, lengths: Int32Array.of(bytes.length) }, 0);
  }

  /** The keys that were put and not taken since, in no order. */
  async *remaining(): AsyncGenerator<string> {
    for (let group = 0; group < groupCount; group += 1) {
      const keys = new Set<string>();
      for await (const { rowCount, bytes, offsets, lengths } of this.#spool.read(group)) {
        for (let row = 0; row < rowCount; row += 1) {
          const start = offsets[row] ?? 0;
          // Latin-1 has one byte for each character, whatever the bytes are.
          const key = bytes.toString('latin1', start + 1, start + (lengths[row] ?? 0));
          if (bytes[start] === plus) keys.add(key);
          else keys.delete(key);
        }
      }
      for (const key of keys) yield Buffer.from(key, 'latin1').toString();
    }
  }

  close(): Promise<void> {
    return this.#spool.close();
  }
}

const plus = '+'.charCodeAt(0);

/** The keys that readers have before an element, to be compared with those in its snapshot. Call `close` at the end. */
export class DeliveredKeys {
  readonly #attempt: SettledAttempt;
  readonly #replay: KeyReplay;
  readonly #columns: readonly Column[];
  readonly #readFrom: string;

  private constructor(
    attempt: SettledAttempt,
    replay: KeyReplay,
    columns: readonly Column[],
    readFrom: string,
  ) {
    this.#attempt = attempt;
    this.#replay = replay;
    this.#columns = columns;
    this.#readFrom = readFrom;
  }

  /**
   * Reads the keys in the files of all elements from the newest base to `last`.
   *
   * @param columns the keys, as `findKeyColumns` gives them
   * @returns why they are not all known, or they
   */
  static async read(
    attempt: SettledAttempt,
    last: number,
    columns: readonly Column[],
  ): Promise<DeliveredKeys | string> {
    const { job, destination, ports, folder, signal } = attempt;
    const reading = { destination, readRows: job.readRows, folder, signal };
    const replay = new KeyReplay();
    const add = (joined: string) => {
      const at = joined.lastIndexOf('\0');
      const key = joined.slice(0, at);
      return joined.slice(at + 1) === changeOps.delete ? replay.take(key) : replay.put(key);
    };
    const seen = new Elements();
    let fault: string | null = null;
    try {
      for await (const recorded of ports.readElements()) {
        fault = seen.add(recorded);
        const files = { ...recorded, rejectedFiles: [] };
        fault ??= await readDeliveredKeys(reading, files, [...columns, opColumn], add);
        if (fault !== null) break;
      }
      if (fault === null && seen.last !== last) fault = `element ${last} is not on record`;
      if (fault === null) return new DeliveredKeys(attempt, replay, columns, seen.digest());
    } catch (error) {
      await replay.close();
      throw error;
    }
    await replay.close();
    return fault;
  }

  /**
   * The deletes of an element, in the form of `SourceSnapshot.readDeletes`: keys that were delivered, and whose rows are not in its
   * snapshot, or no longer wanted.
   *
   * @param snapshot of the element, whose rows are read
   * @throws SluiceError `source.count_mismatch` if not all keys of the snapshot were read
   */
  async *missingFrom(snapshot: SourceSnapshot): AsyncGenerator<RowBlock> {
    const { signal } = this.#attempt;
    if (!snapshot.readDeletes) throw new Error('the snapshot is of no element');
    await this.#takePresent(snapshot);
    let given: (readonly (string | null)[])[] = [];
    for await (const key of this.#replay.remaining()) {
      const texts = splitKeys(key, this.#columns.length);
      if (texts === null) throw new SluiceError('source.model_invalid', nullInKey);
      given.push(texts);
      if (given.length < givenAtOnce) continue;
      yield* snapshot.readDeletes(signal, given);
      given = [];
    }
    if (given.length > 0) yield* snapshot.readDeletes(signal, given);
  }

  /** Takes the keys of all wanted rows in the snapshot. */
  async #takePresent(snapshot: SourceSnapshot): Promise<void> {
    const { job, signal } = this.#attempt;
    const present = await snapshot.share({ ...job.request, select: 'keys' }, signal);
    try {
      let rows = 0;
      for (const slice of present.slices) {
        for await (const block of present.read(slice, signal)) {
          signal.throwIfAborted();
          for (let row = 0; row < block.rowCount; row += 1) {
            const waits = this.#replay.take(textOfKeys(block, row));
            if (waits) await waits;
          }
          rows += block.rowCount;
        }
      }
      const counted = await present.countRows(signal);
      if (counted === rows) return;
      const detail = `${counted} keys were counted, but ${rows} were read`;
      throw new SluiceError('source.count_mismatch', detail);
    } finally {
      await present.close();
    }
  }

  /** Before the commit: what an erasure has removed must not be announced again. @throws `destination.conflict` */
  async checkUnchanged(ports: Pick<RunPorts, 'readElements'>): Promise<void> {
    const seen = new Elements();
    for await (const recorded of ports.readElements()) seen.add(recorded);
    if (seen.digest() === this.#readFrom) return;
    const detail = 'the files of earlier elements were replaced while their keys were read';
    throw new SluiceError('destination.conflict', detail);
  }

  close(): Promise<void> {
    return this.#replay.close();
  }
}

const opColumn: Column = { name: changeColumns.op, type: 'text', sourceType: 'text' };

const nullInKey =
  'a key column has nulls, so deletes: compare cannot tell its rows apart. Add NOT NULL, or find deletes by tombstones';

/** Follows recorded elements from a base on. */
class Elements {
  readonly #hash = createHash('sha256');
  last: number | null = null;

  /** @returns what is wrong; null if it continues the one before */
  add({ element: { number, follows }, generation }: RecordedFiles): string | null {
    const fault = follows === this.last ? null : `element ${follows} is not on record`;
    this.last = number;
    this.#hash.update(`${number} ${generation} `);
    return fault;
  }

  digest(): string {
    return this.#hash.digest('hex');
  }
}

/** The key columns, as files name them. @throws SluiceError `source.model_invalid` if they cannot be compared */
export async function findKeyColumns(attempt: SettledAttempt): Promise<readonly Column[]> {
  const { source, job, signal } = attempt;
  const request = { ...job.request, select: 'keys' as const };
  const { columns } = await source.describe(request, signal);
  const fault = describeIncomparable(columns);
  if (fault !== null) throw new SluiceError('source.model_invalid', fault);
  return columns;
}
