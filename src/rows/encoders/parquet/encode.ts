import type { ColumnMetrics } from '../../../foundation/domain/column-metrics.ts';
import type { Column, RowBlock } from '../../../foundation/domain/row-block.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import type {
  Compression,
  FileEncoder,
  FileOrigin,
  FormatOptions,
  RejectedRow,
} from '../encoder.ts';
import { ByteArrayColumn } from './byte-array-column.ts';
import { type PageLimits, SparePool } from './page.ts';
import { columnMetricsOf } from './column-metrics.ts';
import { type ColumnParts, type ColumnWriter, viewBlock } from './column-writer.ts';
import { FixedColumn, fixedValues, readValues } from './fixed-column.ts';
import { ListColumn } from './list-column.ts';
import { createdBy, fileFooter, magic, type RowGroup } from './metadata.ts';
import { PageArena, PageCompressor } from './page-compressor.ts';
import { findRejections, withoutRows } from './rejections.ts';
import { OpenRowGroup } from './row-group.ts';
import { type ParquetColumn, planColumns, schemaNote, withFieldIds } from './schema.ts';

/**
 * Equal rows give equal bytes however they are cut into blocks. @param isOfTable whether its columns get the ids of a
 * table's fields @param notesBefore those of the other file that the file is made of
 */
export function openParquet(
  columns: readonly Column[],
  compression: Compression,
  sizes: ParquetSizes = defaultSizes(columns.length),
  {
    maxBytes = null,
    origin,
    decimalColumns = null,
    timeAs = 'micros',
    isOfTable = false,
    notesBefore,
  }: ParquetOptions & {
    readonly isOfTable?: boolean;
    readonly notesBefore?: Notes;
  } = {},
): FileEncoder {
  const fitting = maxBytes === null ? sizes : limitSizes(sizes, columns.length, maxBytes);
  const plain = planColumns(columns, decimalColumns, timeAs);
  const planned = isOfTable ? withFieldIds(plain) : plain;
  const notes = notesBefore ?? [
    ...notesOf(columns, origin),
    ...(isOfTable ? [schemaNote(planned)] : []),
  ];
  return new ParquetEncoder(planned, notes, compression, fitting, maxBytes);
}

export type ParquetOptions = Pick<
  FormatOptions,
  'maxBytes' | 'origin' | 'decimalColumns' | 'timeAs'
>;

type Note = readonly [string, string];
type Notes = readonly Note[];

function notesOf(columns: readonly Column[], origin?: FileOrigin): Notes {
  const types = columns.map(({ name, sourceType }) => ({ name, type: sourceType }));
  const notes: Note[] = [
    ['sluice.writer', createdBy],
    ['sluice.postgres_types', JSON.stringify(types)],
  ];
  if (!origin) return notes;
  const { exportId, interval } = origin;
  return [
    ...notes,
    ['sluice.export', exportId],
    ['sluice.interval_start', toTimestamp(interval.start)],
    ['sluice.interval_end', toTimestamp(interval.end)],
  ];
}

class ParquetEncoder implements FileEncoder {
  rejected: readonly RejectedRow[] = [];
  taken: number | undefined;
  readonly #columns: readonly ParquetColumn[];
  readonly #notes: Notes;
  readonly #sizes: ParquetSizes;
  readonly #arena = new PageArena();
  readonly #compressor: PageCompressor;
  readonly #writers: readonly ColumnWriter[];
  readonly #groups: RowGroup[] = [];
  readonly #limit: FileLimit | null;
  #group: OpenRowGroup;
  #groupRawBytes = 0;
  #nextCheckpoint: number;
  #heldAtCheckpoint = 0;
  #rawAtCheckpoint = 0;
  #ready: Uint8Array[] = [magic];
  #offset = magic.length;

  constructor(
    columns: readonly ParquetColumn[],
    notes: Notes,
    compression: Compression,
    sizes: ParquetSizes,
    maxBytes: number | null,
  ) {
    this.#columns = columns;
    this.#notes = notes;
    this.#sizes = sizes;
    const footerOf = (groups: readonly RowGroup[]) => fileFooter(columns, groups, notes).length;
    this.#limit = maxBytes === null ? null : new FileLimit(maxBytes, footerOf);
    this.#compressor = new PageCompressor(compression, this.#arena);
    const spares = new SparePool();
    this.#writers = columns.map((column, index) =>
      openColumn(column, index, { limits: sizes.page, spares }),
    );
    this.#group = this.#openGroup();
    this.#nextCheckpoint = sizes.checkpointBytes;
  }

  get columnMetrics(): readonly ColumnMetrics[] {
    return columnMetricsOf(this.#columns, this.#groups);
  }

  get heldBytes(): number {
    return this.#heldAtCheckpoint + this.#groupRawBytes - this.#rawAtCheckpoint;
  }

  async write(block: RowBlock): Promise<readonly Uint8Array[]> {
    const rejected = findRejections(block, this.#columns);
    const accepted = rejected.length === 0 ? block : withoutRows(block, rejected);
    let row = 0;
    while (row < accepted.rowCount && !this.#isFull) {
      const end = this.#stretchEnd(accepted, row);
      await this.#append(accepted, row, end);
      if (this.#groupRawBytes >= this.#nextCheckpoint) await this.#checkpoint();
      if (this.#group.rows >= this.#groupRows) await this.#closeGroup();
      row = end;
    }
    const taken = rowsBefore(row, rejected);
    this.rejected = rejected.filter((each) => each.row < taken);
    if (this.#limit !== null) this.taken = taken;
    return this.#takeReady();
  }

  release(): void {
    this.#arena.reuse();
  }

  get #isFull(): boolean {
    if (this.#limit === null || this.#group.rows > 0 || this.#groups.length === 0) return false;
    return this.#limit.isReached(this.#offset);
  }

  async finish(): Promise<readonly Uint8Array[]> {
    if (this.#group.rows > 0) await this.#closeGroup();
    const footer = fileFooter(this.#columns, this.#groups, this.#notes);
    this.#ready.push(footer);
    return this.#takeReady();
  }

  get #groupRows(): number {
    return this.#sizes.groupRows ?? Number.POSITIVE_INFINITY;
  }

  /** The row after the next checkpoint, or the end of the block or the group; counts the bytes up to there. */
  #stretchEnd({ columns, lengths, rowCount }: RowBlock, from: number): number {
    const last = Math.min(rowCount, from + this.#groupRows - this.#group.rows);
    const width = columns.length;
    let raw = this.#groupRawBytes;
    let row = from;
    let field = from * width;
    while (row < last && raw < this.#nextCheckpoint) {
      // One more byte per field, so that nulls count too.
      for (const end = field + width; field < end; field++) {
        raw += Math.max(lengths[field] as number, 0) + 1;
      }
      row++;
    }
    this.#groupRawBytes = raw;
    return row;
  }

  async #append(block: RowBlock, from: number, to: number): Promise<void> {
    const viewed = viewBlock(block);
    for (const [column, writer] of this.#writers.entries()) {
      let row = from;
      while (row < to) {
        row = writer.append(viewed, row, to);
        if (writer.pageIsFull) await this.#group.cutPage(column, writer);
      }
    }
    this.#group.rows += to - from;
  }

  async #checkpoint(): Promise<void> {
    const open = this.#writers.reduce((bytes, writer) => bytes + writer.openBytes, 0);
    const ratio = this.#limit?.ratio ?? 1;
    const held = open * ratio + (await this.#group.settle(ratio));
    if (this.#groupRawBytes >= this.#sizes.groupRawBytes || held >= this.#sizes.groupHeldBytes) {
      await this.#closeGroup();
      return;
    }
    this.#heldAtCheckpoint = held;
    this.#rawAtCheckpoint = this.#groupRawBytes;
    this.#nextCheckpoint = this.#groupRawBytes + this.#sizes.checkpointBytes;
  }

  async #closeGroup(): Promise<void> {
    const { group, end } = await this.#group.close(this.#writers, this.#offset, this.#ready);
    this.#arena.endGroup();
    this.#groups.push(group);
    this.#limit?.add(group);
    this.#offset = end;
    this.#group = this.#openGroup();
    this.#groupRawBytes = 0;
    this.#heldAtCheckpoint = 0;
    this.#rawAtCheckpoint = 0;
    this.#nextCheckpoint = this.#sizes.checkpointBytes;
  }

  #openGroup(): OpenRowGroup {
    return new OpenRowGroup(this.#columns.length, this.#compressor);
  }

  #takeReady(): readonly Uint8Array[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }
}

function rowsBefore(kept: number, rejected: readonly RejectedRow[]): number {
  return kept + rejected.filter(({ row }, before) => row - before <= kept).length;
}

function openColumn({ form }: ParquetColumn, index: number, parts: ColumnParts): ColumnWriter {
  switch (form.kind) {
    case 'list':
      return new ListColumn(index, form.element, parts.limits);
    case 'plain':
      return new ByteArrayColumn(index, 'plain', parts);
    case 'number':
      return new FixedColumn(index, readValues(form.number), parts);
    case 'field': {
      const values = fixedValues(form.type);
      return values === undefined
        ? new ByteArrayColumn(index, form.type, parts)
        : new FixedColumn(index, values, parts);
    }
  }
}

/** The share of a file that is kept for the next row group. */
const reserve = 1 / 10;
/** A row group ends at a checkpoint; it is at most a quarter larger than this share, so it fits the reserve. */
const groupShare = 1 / 14;
const checkpointsPerGroup = 4;
const minPageBytes = 4 * 1024;

/** Smaller pages and row groups, so that a file can end near its limit. */
function limitSizes(
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

/** Counts whole row groups, so it depends on the rows alone. */
class FileLimit {
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

  /** The share that compression left of the groups so far; 1 before the first. */
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

  isReached(offset: number): boolean {
    return offset + this.#footer > this.#maxBytes * (1 - reserve);
  }
}

/** Sizes in bytes; `raw` before compression. */
export interface ParquetSizes {
  readonly page: PageLimits;
  /** A row group ends at the first checkpoint at which it reaches one of these. */
  readonly groupRawBytes: number;
  readonly groupHeldBytes: number;
  /** Maximum rows of a group; undefined: any number. */
  readonly groupRows?: number;
  readonly checkpointBytes: number;
}

const mebibyte = 1024 * 1024;

/** Readers skip by row group (DuckDB) or by page (Arrow, Spark). DuckDB's own groups have 122,880 rows. */
const prunedRows = 2 ** 17;

/** 16 MiB of memory hold 128 MiB once compressed. Pages are smaller if many columns each hold an open one. */
export function defaultSizes(columnCount: number): ParquetSizes {
  const share = 1 / Math.max(1, columnCount);
  return {
    page: {
      bytes: Math.min(mebibyte, Math.max(64 * 1024, Math.floor(24 * mebibyte * share))),
      rows: Math.min(20_000, Math.max(1000, Math.floor(2_000_000 * share))),
    },
    groupRawBytes: 128 * mebibyte,
    groupHeldBytes: 16 * mebibyte,
    checkpointBytes: 4 * mebibyte,
    groupRows: prunedRows,
  };
}
