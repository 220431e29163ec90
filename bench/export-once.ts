import type { Compression, FileFormat } from '../src/encoders/encoder.ts';
import { openEncoder } from '../src/encoders/index.ts';
import { createPostgresSource } from '../src/sources/index.ts';

/**
 * Exports the benchmark's rows once, to nowhere, and prints what it took as JSON. A process of its
 * own, so that CPU time and peak memory are this export's alone.
 */
const [connectionString = '', format = '', compression = '', start = '', end = ''] =
  process.argv.slice(2);
const signal = new AbortController().signal;
const startedAt = performance.now();
const source = createPostgresSource({ connectionString });
const snapshot = await source.open(
  {
    model: 'events',
    teamId: 1,
    interval: { start: Number(start), end: Number(end) },
    dslQuery: null,
    includeEvents: null,
    excludeEvents: null,
  },
  signal,
);
const encoder = openEncoder({
  format: format as FileFormat,
  compression: (compression === 'none' ? null : compression) as Compression,
  columns: snapshot.columns,
});
let rows = 0;
let bytes = 0;
const count = (parts: readonly Uint8Array[]) => {
  for (const part of parts) bytes += part.length;
};
for (const slice of snapshot.slices) {
  for await (const block of snapshot.read(slice, signal)) {
    rows += block.rowCount;
    count(await encoder.write(block));
  }
}
count(await encoder.finish());
await snapshot.close();
if (rows !== snapshot.totalCount) throw new Error(`${rows} of ${snapshot.totalCount} rows came`);
const wallMs = performance.now() - startedAt;
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
const cpuMs = (userCPUTime + systemCPUTime) / 1000;
process.stdout.write(JSON.stringify({ rows, bytes, wallMs, cpuMs, peakMb: maxRSS / 1024 }));
