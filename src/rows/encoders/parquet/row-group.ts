import type { ChunkSummary, ColumnWriter } from './column-writer.ts';
import {
  type ColumnChunk,
  dataPageHeader,
  dictionaryPageHeader,
  type PageSizes,
  type RowGroup,
} from './metadata.ts';
import type { CompressedPage, PageCompressor, PendingPage } from './page-compressor.ts';

/** A column's pages must be adjacent, so all are held. */
export class OpenRowGroup {
  rows = 0;
  readonly #pages: PendingPage[][];
  readonly #compressor: PageCompressor;
  #settledBytes = 0;
  #older: PendingPage[] = [];
  #newer: PendingPage[] = [];

  constructor(columnCount: number, compressor: PageCompressor) {
    this.#pages = Array.from({ length: columnCount }, () => []);
    this.#compressor = compressor;
  }

  async cutPage(column: number, writer: ColumnWriter): Promise<void> {
    const raw = writer.cutPage();
    if (raw === undefined) return;
    const page = await this.#compressor.submit(raw);
    this.#pages[column]?.push(page);
    this.#newer.push(page);
  }

  /**
   * Only pages cut before the last call count by their compressed size, so that the speed of threads does not matter.
   * @param ratio what compression is expected to leave of the others
   */
  async settle(ratio: number): Promise<number> {
    for (const page of this.#older) this.#settledBytes += (await page.done).body.length;
    this.#older = this.#newer;
    this.#newer = [];
    return this.#older.reduce((held, page) => held + page.rawBytes * ratio, this.#settledBytes);
  }

  /** Ends the group, which is at `offset` in the file; `out` receives its bytes. */
  async close(
    writers: readonly ColumnWriter[],
    offset: number,
    out: Uint8Array[],
  ): Promise<{ group: RowGroup; end: number }> {
    const codec = await this.#compressor.codecId;
    for (const [column, writer] of writers.entries()) await this.cutPage(column, writer);
    const layout = { offset, out };
    const chunks: ColumnChunk[] = [];
    let sortedBy: number | undefined;
    for (const [column, writer] of writers.entries()) {
      const summary = writer.finishChunk();
      const dictionary =
        summary.dictionary && (await (await this.#compressor.submit(summary.dictionary)).done);
      const pages = await Promise.all((this.#pages[column] ?? []).map((page) => page.done));
      chunks.push(layChunk(layout, codec, summary, dictionary, pages));
      if (summary.isAscending) sortedBy ??= column;
    }
    return { group: { rows: this.rows, offset, chunks, sortedBy }, end: layout.offset };
  }
}

interface Layout {
  offset: number;
  readonly out: Uint8Array[];
}

function layChunk(
  layout: Layout,
  codec: number,
  { nullCount, bounds }: ChunkSummary,
  dictionary: CompressedPage | undefined,
  pages: readonly CompressedPage[],
): ColumnChunk {
  const start = layout.offset;
  let rawBytes = 0;
  let values = 0;
  const lay = (header: Uint8Array, page: CompressedPage): void => {
    layout.out.push(header, page.body);
    layout.offset += header.length + page.body.length;
    rawBytes += header.length + page.rawBytes;
  };
  if (dictionary !== undefined) {
    lay(dictionaryPageHeader(dictionary.values, sizesOf(dictionary)), dictionary);
  }
  const dataOffset = layout.offset;
  for (const page of pages) {
    lay(dataPageHeader(page.values, page.encoding, sizesOf(page)), page);
    values += page.values;
  }
  return {
    codec,
    values,
    dataOffset,
    dictionaryOffset: dictionary && start,
    rawBytes,
    compressedBytes: layout.offset - start,
    nullCount,
    bounds,
  };
}

function sizesOf(page: CompressedPage): PageSizes {
  return { raw: page.rawBytes, compressed: page.body.length };
}
