import type { RowGroup } from './metadata.ts';
import type { ParquetSizes } from './sizes.ts';

/** The share of a file that is kept for the next row group. */
const reserve = 1 / 10;
/** A row group ends at a checkpoint; it is at most a quarter larger than this share, so it fits the reserve. */
const groupShare = 1 / 14;
const checkpointsPerGroup = 4;
const minPageBytes = 4 * 1024;

/** Smaller pages and row groups, so that a file can end near its limit. */
export function limitSizes(
  { page, ...sizes }: ParquetSizes,
  columnCount: number,
  maxBytes: number,
): ParquetSizes {
  const group = Math.floor(maxBytes * groupShare);
  const perColumn = Math.max(minPageBytes, Math.floor(group / Math.max(1, columnCount)));
  return {
    ...sizes,
    page: { ...page, bytes: Math.min(page.bytes, perColumn) },
    groupHeldBytes: Math.min(sizes.groupHeldBytes, group),
    checkpointBytes: Math.min(sizes.checkpointBytes, Math.ceil(group / checkpointsPerGroup)),
  };
}

/** How full a file is that has a maximum of bytes. Counts whole row groups, so it depends on the rows alone. */
export class FileLimit {
  readonly #maxBytes: number;
  readonly #footerOf: (groups: readonly RowGroup[]) => number;
  readonly #emptyFooter: number;
  #footer: number;
  #raw = 0;
  #compressed = 0;

  /** @param footerOf the bytes that the end of a file of these groups has */
  constructor(maxBytes: number, footerOf: (groups: readonly RowGroup[]) => number) {
    this.#maxBytes = maxBytes;
    this.#footerOf = footerOf;
    this.#emptyFooter = footerOf([]);
    this.#footer = this.#emptyFooter;
  }

  /** What compression left of the groups so far; 1 before the first. */
  get ratio(): number {
    return this.#raw === 0 ? 1 : Math.min(1, this.#compressed / this.#raw);
  }

  add(group: RowGroup): void {
    this.#footer += this.#footerOf([group]) - this.#emptyFooter;
    for (const { rawBytes, compressedBytes } of group.chunks) {
      this.#raw += rawBytes;
      this.#compressed += compressedBytes;
    }
  }

  /** Whether another group may not fit into a file that ends at `offset` without its footer. */
  isReached(offset: number): boolean {
    return offset + this.#footer > this.#maxBytes * (1 - reserve);
  }
}
