/**
 * `node --max-old-space-size=128 test/big/compared-keys.mjs 10000000`: what a comparison of so many keys needs, of the build in
 * `dist`. Each key is delivered and read from the table; one in a thousand is gone. Fails above 200 MiB.
 */

import { KeyReplay } from '../../dist/rows/pipeline/delivered-keys.js';

const keys = Number(process.argv[2] ?? 10_000_000);
const mostMib = 200;
const replay = new KeyReplay();
const startedAt = performance.now();
let peak = 0;

async function addAll(add, isLeftOut) {
  for (let index = 0; index < keys; index += 1) {
    if (isLeftOut(index)) continue;
    const waits = add(`018f2b1e-0000-7000-8000-${String(index).padStart(12, '0')}`);
    if (waits) await waits;
    if (index % 100_000 === 0) peak = Math.max(peak, process.memoryUsage.rss());
  }
}

await addAll(
  (key) => replay.put(key),
  () => false,
);
await addAll(
  (key) => replay.take(key),
  (index) => index % 1_000 === 0,
);
let gone = 0;
for await (const _ of replay.remaining()) {
  gone += 1;
  peak = Math.max(peak, process.memoryUsage.rss());
}
await replay.close();
const peakMib = Math.round(peak / 1024 ** 2);
const seconds = Math.round((performance.now() - startedAt) / 1_000);
console.log(JSON.stringify({ keys, gone, peakMib, seconds }));
if (gone !== Math.ceil(keys / 1_000) || peakMib >= mostMib) process.exit(1);
