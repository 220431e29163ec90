import { changeColumns, changeOps, type VersionType } from '../../foundation/domain/element.ts';
import type { ReadColumn } from '../../rows/encoders/encoder.ts';
import { digestBytes, RecordSpool, wholeDigestOf } from '../../rows/pipeline/key-spool.ts';
import { canonicalKey, joinKeys } from '../../rows/pipeline/row-keys.ts';

interface Said {
  /** The number of the element; -1: the source. */
  readonly element: number;
  readonly version: bigint;
  readonly isRow: boolean;
  /** A digest of all columns. */
  readonly content: string;
  readonly isTwice: boolean;
}

export type Verdict =
  | 'equal'
  /** The source changed it after the newest element, or may have. The next element has it. */
  | 'pending'
  /** Other content with the same version. */
  | 'altered'
  /** The source has a row that an element should have had. */
  | 'lost'
  /** The source has announced that it is deleted, and no element has that. */
  | 'undeleted'
  /** It is deleted, and the source has not announced that. */
  | 'gone'
  /** An element or the source has it twice. */
  | 'twice';

export interface Bounds {
  readonly versionType: VersionType;
  /** The lowest version that the next element has. */
  readonly next: string;
  /** Tables may have been attached since, with rows of any version. */
  readonly hasNewTables: boolean;
}

/** After a key's digest: that of the content, the element, the version, the operation. */
const recordBytes = digestBytes + digestBytes + 8 + 8 + 1;

/** The rows of elements and those of the source, compared by key. Memory is constant for any number. */
export class ReplayedRows {
  readonly #records = new RecordSpool(recordBytes);
  readonly #keys: readonly number[];
  readonly #bounds: Bounds;
  readonly #next: bigint;
  readonly #places: { readonly op: number; readonly version: number; readonly element: number };

  constructor(columns: readonly ReadColumn[], keys: readonly number[], bounds: Bounds) {
    this.#keys = keys;
    this.#bounds = bounds;
    const next = { name: '', type: 'timestamptz' } as const;
    this.#next = versionOf(canonicalKey(next, bounds.next), bounds.versionType);
    const indexOf = (wanted: string) => columns.findIndex(({ name }) => name === wanted);
    this.#places = {
      op: indexOf(changeColumns.op),
      version: indexOf(changeColumns.version),
      element: indexOf(changeColumns.element),
    };
  }

  /** @param values of all columns, as `valuesOfRow` gives them @param element -1: of the source @returns what to wait for */
  add(values: readonly (string | null)[], element: number): Promise<void> | undefined {
    const { op, version, element: number } = this.#places;
    const key = joinKeys(this.#keys.map((at) => values[at] ?? null));
    const content = values.map((value, at) => ([op, version, number].includes(at) ? null : value));
    return this.#records.add(wholeDigestOf(key), (page, at) => {
      wholeDigestOf(JSON.stringify(content)).copy(page, at, 0, digestBytes);
      page.writeDoubleLE(element, at + digestBytes);
      const given = versionOf(values[version] ?? null, this.#bounds.versionType);
      page.writeBigInt64LE(given, at + digestBytes + 8);
      page[at + digestBytes + 16] = values[op] === changeOps.delete ? 0 : 1;
    });
  }

  /** @param tell gets each key's digest, as `digestOf` makes it */
  async compare(tell: (verdict: Verdict, digest: string) => void): Promise<void> {
    for (const share of this.#records.shares()) {
      const keys = new Map<string, { files: Said | null; source: Said | null }>();
      await this.#records.read(share, (digest, page, at) => {
        const said = saidAt(page, at);
        const side = said.element < 0 ? 'source' : 'files';
        const sides = keys.get(digest) ?? { files: null, source: null };
        sides[side] = later(sides[side], said);
        keys.set(digest, sides);
      });
      for (const [digest, { files, source }] of keys) tell(this.#judge(files, source), digest);
    }
  }

  #judge(files: Said | null, source: Said | null): Verdict {
    const isHere = files?.isRow === true;
    const isPending = source !== null && source.version >= this.#next;
    if (files?.isTwice || source?.isTwice) return 'twice';
    if (!source?.isRow) {
      if (!isHere) return 'equal';
      if (source === null) return 'gone';
      return isPending ? 'pending' : 'undeleted';
    }
    if (isHere && files.version === source.version) {
      if (files.content === source.content) return 'equal';
      // Two transactions can have one time, but not one id.
      return isPending && this.#bounds.versionType !== 'xid8' ? 'pending' : 'altered';
    }
    return isPending || this.#bounds.hasNewTables ? 'pending' : 'lost';
  }

  close(): Promise<void> {
    return this.#records.close();
  }
}

function saidAt(page: Buffer, at: number): Said {
  return {
    content: page.toString('latin1', at, at + digestBytes),
    element: page.readDoubleLE(at + digestBytes),
    version: page.readBigInt64LE(at + digestBytes + 8),
    isRow: page[at + digestBytes + 16] === 1,
    isTwice: false,
  };
}

/** Elements count by their numbers. */
function later(one: Said | null, other: Said): Said {
  if (one === null || one.element < other.element) return other;
  return one.element > other.element ? one : { ...other, isTwice: true };
}

const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n];

/** A version in an order. @param text of a time as `canonicalKey` gives it; null: written before there was a trigger */
function versionOf(text: string | null, type: VersionType): bigint {
  if (text === null) return least;
  if (type === 'xid8') return BigInt(text);
  const seconds = Date.parse(`${text.slice(0, 19)}Z`);
  // Infinite, or outside the years of a timestamp of ours.
  if (!Number.isFinite(seconds)) return /^-|BC$/.test(text) ? least : most;
  return BigInt(seconds) * 1000n + BigInt(text.slice(20, 26));
}
