import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { openSandbox } from '../src/extensions/own-plugins/sandbox.ts';
import { trustJson } from '../src/rows/transforms/json.ts';
import { makeRow } from '../test/support/transforms/rows.ts';
import { type Measured, makeEvents, measureInside, plugin } from './sandbox/inside.ts';

/**
 * Compares the ways to run an organization's own plugin, which adds two properties to events of about
 * 800 bytes: rows per second of one processor core, and the start.
 *
 *   npm run bench:sandbox -- [--rows 20000] [--others <folder>]
 *
 * --others: a folder with a node_modules that holds quickjs-emscripten, isolated-vm or ses. They are no
 * dependencies of ours. Install them there with `npm install --ignore-scripts`. Of these ways only the
 * inside is measured: to read a batch, to run the plugin and to write the rows, without a second process.
 */
const { values } = parseArgs({
  options: { rows: { type: 'string', default: '20000' }, others: { type: 'string' } },
});
const events = makeEvents(Number(values.rows));
const batchRows = 500;
const results: Measured[] = [await measureOurs()];
if (values.others !== undefined) {
  const load = createRequire(`${path.resolve(values.others)}/`);
  results.push(...(await measureInside(load, events, batchRows)));
}
process.stdout.write(`Node ${process.version}\n`);
for (const { way, startMs, rowsPerCoreSecond, note } of results) {
  const speed = rowsPerCoreSecond === null ? note : `${Math.round(rowsPerCoreSecond)} rows/s`;
  process.stdout.write(`${way.padEnd(34)} start ${startMs.toFixed(0).padStart(4)} ms  ${speed}\n`);
}

async function measureOurs(): Promise<Measured> {
  const before = performance.now();
  const sandbox = await openSandbox({
    source: plugin,
    config: { greeting: 'hello' },
    intervalEndMs: 1_714_557_600_000,
  });
  const startMs = performance.now() - before;
  const rows = events.map((text, index) => {
    const columns = Object.entries(JSON.parse(text)).map(
      ([name, value]) => [name, trustJson(JSON.stringify(value))] as const,
    );
    return { key: String(index), row: makeRow(columns) };
  });
  const run = async () => {
    for (let at = 0; at < rows.length; at += batchRows) {
      const after = await sandbox.apply(rows.slice(at, at + batchRows));
      // As an encoder would.
      for (let index = 0; index < after.length; index += 1) {
        const given = rows[at + index];
        const result = given && after.at(index, given.row);
        if (result && 'text' in result) result.text;
      }
    }
  };
  await run();
  const cpuMs = childrenCpuMs();
  const own = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(own);
  const ownMs = (user + system) / 1_000;
  const childMs = childrenCpuMs() - cpuMs;
  await sandbox.close();
  process.stdout.write(
    `of the sandbox's process ${Math.round((rows.length / childMs) * 1_000)} rows/s, `,
  );
  process.stdout.write(`of the worker's ${Math.round((rows.length / ownMs) * 1_000)} rows/s\n`);
  const rowsPerCoreSecond = (rows.length / (childMs + ownMs)) * 1_000;
  return { way: 'ours, both processes together', startMs, rowsPerCoreSecond, note: '' };
}

/** Processor time of the processes that this one has started and that run. */
function childrenCpuMs(): number {
  const pids = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ');
  const ticks = pids.map((pid) => {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, count) => sum + count, 0) * 10;
}
