import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';

/** What both examples read: a copy of a bucket in a folder, and the key to trust. */
export function readArguments() {
  const text = { type: 'string' };
  const { values } = parseArgs({
    options: { bucket: text, prefix: text, key: text, target: text, 'stop-at': text },
  });
  const { bucket, prefix, key, target } = values;
  if (!bucket || !key || !target) throw new Error('--bucket, --key and --target are missing');
  return { bucket, prefix: prefix ?? '', key, target, stopAt: values['stop-at'] };
}

export const readFrom = (folder) => (key) =>
  readFile(path.join(folder, key)).catch((error) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });

/** The rows of a file of JSON Lines. */
export async function rowsOf(file) {
  const bytes = await file.read();
  const text = (file.compression === 'gzip' ? gunzipSync(bytes) : Buffer.from(bytes)).toString();
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** Ends the process at a step, as a crash would: for tests. */
export function failpoint(stopAt) {
  let passed = 0;
  return (name) => {
    passed += name === 'row' ? 1 : 0;
    if (stopAt === name || stopAt === `${name} ${passed}`) process.kill(process.pid, 'SIGKILL');
  };
}
