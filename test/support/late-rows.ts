import type { EarlierExport, Source, SourceRequest } from '../../src/rows/sources/source.ts';

/** Whether a second look finds that rows may have come. */
export async function mayHaveLateRows(
  source: Source,
  request: SourceRequest,
  earlier: EarlierExport,
  position: string | null,
  signal: AbortSignal,
  server: string | null = null,
): Promise<boolean> {
  return (await source.lookAgain(request, earlier, position, signal, server)).mayHaveLateRows;
}
