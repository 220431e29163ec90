import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

/** Whether ClickHouse's engine is here: `npm ci --prefix test/support/clickhouse`. It has half a gigabyte, so only the nightly lane installs it. */
export const hasClickHouse = existsSync(join(import.meta.dirname, 'node_modules/@chdb'));

/** The rows of the last statement. Tables live as long as the call. */
export async function askClickHouse(
  ...statements: readonly string[]
): Promise<readonly (readonly unknown[])[]> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'answer.mjs')]);
  child.stdin.end(JSON.stringify(statements));
  const [answer, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  if (code !== 0) throw new Error(errors);
  return answer
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}
