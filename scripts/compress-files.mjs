import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const best = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
const ways = [
  ['.br', (bytes) => brotliCompressSync(bytes, best)],
  ['.gz', (bytes) => gzipSync(bytes, { level: 9 })],
];

/** Writes `name.br` and `name.gz` beside each file below a folder. The API serves them as they are. */
export function compressFiles(folder) {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = `${entry.parentPath}/${entry.name}`;
    const bytes = readFileSync(file);
    for (const [suffix, compress] of ways) {
      const packed = compress(bytes);
      // Pictures gain nothing, and are sent as they are.
      if (packed.length < bytes.length * 0.9) writeFileSync(file + suffix, packed);
    }
  }
}
