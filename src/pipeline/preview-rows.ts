import type { Column } from '../domain/row-block.ts';
import type { Instant } from '../domain/time.ts';
import type { FileEncoder } from '../encoders/encoder.ts';
import type { Source, SourceRequest, SourceSnapshot } from '../sources/source.ts';

export interface RowSample {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** JSON values in the order of the columns. */
  readonly rows: readonly (readonly unknown[])[];
}

const hourMs = 3_600_000;
const monthMs = 30 * 24 * hourMs;
/** How far back is looked for rows, nearest first: the whole past may be too much to count. */
const reachesMs = [hourMs, 24 * hourMs, monthMs];
/** Rows are taken until they pass this size, however few they are. */
const sampleBytes = 4 * 1024 * 1024;

/**
 * Rows as a JSONLines file would hold them: the first ones of the shortest time before `now` that
 * has enough of them, in the order of a run. Numbers that a client would round are text.
 *
 * @throws SluiceError as a run does, and whatever `signal` is aborted with
 */
export async function previewRows(
  source: Source,
  request: Omit<SourceRequest, 'interval'>,
  openJsonLines: (columns: readonly Column[]) => FileEncoder,
  { limit, now }: { readonly limit: number; readonly now: Instant },
  signal: AbortSignal,
): Promise<RowSample> {
  const snapshot = await openNewest(source, request, limit, now, signal);
  try {
    const columns = snapshot.columns.map(({ name, sourceType }) => ({ name, type: sourceType }));
    const lines = await readLines(snapshot, openJsonLines, limit, signal);
    return { columns, rows: lines.map((line) => valuesOf(line, columns)) };
  } finally {
    await snapshot.close();
  }
}

/** The nearest past that has `limit` rows; the whole past only if there was none before. */
async function openNewest(
  source: Source,
  request: Omit<SourceRequest, 'interval'>,
  limit: number,
  now: Instant,
  signal: AbortSignal,
): Promise<SourceSnapshot> {
  const openSince = (start: Instant) =>
    source.open({ ...request, interval: { start, end: now } }, signal);
  for (const reachMs of reachesMs) {
    const snapshot = await openSince(now - reachMs);
    const isEnough =
      snapshot.totalCount >= limit || (reachMs === monthMs && snapshot.totalCount > 0);
    if (isEnough) return snapshot;
    await snapshot.close();
  }
  return openSince(0);
}

async function readLines(
  snapshot: SourceSnapshot,
  openJsonLines: (columns: readonly Column[]) => FileEncoder,
  limit: number,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const encoder = openJsonLines(snapshot.columns);
  const made: Uint8Array[] = [];
  let rows = 0;
  let bytes = 0;
  for (const slice of snapshot.slices) {
    for await (const block of snapshot.read(slice, signal)) {
      const rowCount = Math.min(block.rowCount, limit - rows);
      made.push(...(await encoder.write({ ...block, rowCount })));
      rows += rowCount;
      bytes += block.bytes.length;
      if (rows === limit || bytes > sampleBytes) break;
    }
    if (rows === limit || bytes > sampleBytes) break;
  }
  made.push(...(await encoder.finish()));
  return Buffer.concat(made).toString('utf8').split('\n').slice(0, -1);
}

function valuesOf(line: string, columns: RowSample['columns']): readonly unknown[] {
  const row: Record<string, unknown> = JSON.parse(line.replace(stringOrNumber, quoteInexact));
  return columns.map(({ name }) => row[name]);
}

const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

/** A double holds 15 digits whatever they are; more only if they read back the same. */
function quoteInexact(token: string): string {
  if (token.startsWith('"') || String(Number(token)) === token) return token;
  const digits = token.replace(/[eE].*$|\D/g, '').length;
  return digits <= 15 && Number.isFinite(Number(token)) ? token : `"${token}"`;
}
