import { createRequire } from 'node:module';
import { ownEnvironment } from '../../foundation/config/client-settings.ts';
import type { Terminal } from './deps.ts';
import { runSluice } from './run-sluice.ts';

const { version } = createRequire(import.meta.url)('../../../package.json') as { version: string };
const { stdin, stdout, stderr } = process;
const stop = new AbortController();
const leftOverMs = 10_000;

const terminal: Terminal = {
  out: (text) => void stdout.write(text),
  err: (text) => void stderr.write(text),
  env: ownEnvironment(),
  isTerminal: stdout.isTTY === true,
  drawsProgress: stderr.isTTY === true,
  ask: stdin.isTTY === true && stderr.isTTY === true ? ask : null,
  async readInput() {
    const { text } = await import('node:stream/consumers');
    return text(stdin);
  },
  get signal() {
    // Only a command that waits asks for it; others end as a signal always ends a process.
    watchSignals();
    return stop.signal;
  },
};

let isWatching = false;
function watchSignals(): void {
  if (isWatching) return;
  isWatching = true;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
}

async function ask(question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises');
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    return await lines.question(question, { signal: stop.signal });
  } finally {
    lines.close();
  }
}

// `sluice … | head` ends the reader before us.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});
const code = await runSluice(process.argv.slice(2), terminal, version);
// A command that keeps serving has set its own.
if (code !== 0) process.exitCode = code;
// A connection that is left over keeps no other command alive after its end: those of a timer would pile up.
if (process.argv[2] !== 'quickstart') setTimeout(() => process.exit(), leftOverMs).unref();
