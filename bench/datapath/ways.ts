import { fork, spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { encoders } from '../../src/rows/encoders/index.ts';
import { deployedMalloc } from '../../test/support/deployed-malloc.ts';
import { benchChains } from './chains.ts';
import type { Sink } from './start-sink.ts';
import { type BenchTable, selectOf } from './tables.ts';
import type { Taken } from './taken.ts';

/** One way to get the rows out, with the bar that it must meet. */
export interface Way {
  readonly kind: 'limit' | 'shell' | 'libraries' | 'ours';
  readonly label: string;
  /** Of the limit's wall time; null if nothing is promised. */
  readonly bar: number | null;
  readonly run: () => Promise<Taken>;
}

/** As a worker runs in production; also silences the SDK's warning about its next Node version. */
const processEnv = {
  ...process.env,
  ...deployedMalloc,
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
};

/** Whether this machine has the programs of the shell ways. */
export function hasShellTools(): boolean {
  return ['psql', 'gzip', 'curl'].every((tool) => spawnSync(tool, ['--version']).status === 0);
}

export interface WaysOptions {
  readonly url: string;
  /** Where ours read the rows. */
  readonly readUrl: string;
  readonly sink: Sink;
  readonly table: BenchTable;
  /** All formats with all compressions and chains, not only those with a bar. */
  readonly every: boolean;
  /** The modes of an export instead. */
  readonly modes: boolean;
}

/** Of the time of mode append for the same rows. */
const modeBar = 1.15;

/** What the others are compared with first: the limit, or mode append. */
export function waysToRun(options: WaysOptions): readonly Way[] {
  const { url, readUrl, sink, table, every, modes } = options;
  const select = selectOf(table);
  const copy = (options: string) =>
    `psql "$BENCH_DATABASE" -qc "COPY ($BENCH_SELECT) TO STDOUT (FORMAT ${options})"`;
  const shell = (kind: 'limit' | 'shell', label: string, command: string): Way => ({
    kind,
    label,
    bar: null,
    run: () => runShell(command, { BENCH_DATABASE: url, BENCH_SELECT: select }),
  });
  const ours = (
    label: string,
    format: string,
    compression: string | null,
    chain = '',
    mode = '',
  ): Way => ({
    kind: 'ours',
    label,
    bar: table.bars[label] ?? (mode === '' ? null : modeBar),
    run: () =>
      runProcess('ours.js', [
        readUrl,
        sink.endpoint,
        table.name,
        format,
        compression ?? '',
        chain,
        mode,
      ]),
  });
  if (modes) {
    const of = (mode: string) => ours(`JSONLines, mode ${mode}`, 'JSONLines', null, '', mode);
    return ['append', 'snapshot', 'changes'].map(of);
  }
  const object = `${sink.endpoint}/bench/shell.csv.gz`;
  const ways: readonly Way[] = [
    shell('limit', 'the limit: psql COPY binary > /dev/null', `${copy('binary')} > /dev/null`),
    shell(
      'shell',
      'psql COPY csv | gzip -6 | curl',
      `${copy('csv, HEADER')} | gzip -6 | curl -fsST - '${object}'`,
    ),
    {
      kind: 'libraries',
      label: 'pg-query-stream, JSON.stringify, createGzip, lib-storage',
      bar: null,
      run: () => runProcess('naive.js', [url, sink.endpoint, select]),
    },
    ...encoders.flatMap(({ format, compressions }) =>
      [null, ...Object.keys(compressions)].map((compression) => {
        const label = compression === null ? format : `${format} + ${compression}`;
        return ours(label, format, compression);
      }),
    ),
    ...Object.keys(benchChains).map((chain) =>
      ours(`JSONLines + gzip, ${chain}`, 'JSONLines', 'gzip', chain),
    ),
  ];
  if (every) return ways;
  if (table.name !== 'events') {
    return ways.filter(({ kind, bar }) => kind === 'limit' || bar !== null);
  }
  const ownPlugin = ways.at(-1);
  return ways.filter((way) => way.bar !== null || way.kind !== 'ours' || way === ownPlugin);
}

async function runShell(command: string, env: Record<string, string>): Promise<Taken> {
  const startedAt = performance.now();
  const child = spawn('bash', ['-o', 'pipefail', '-c', command], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`failed: ${command}`);
  const wallMs = performance.now() - startedAt;
  return { wallMs, cpuMs: null, childrenCpuMs: null, peakMib: null, rows: null, bytes: null };
}

/** A process of its own, so that CPU time and peak memory are this export's alone. */
function runProcess(script: string, given: readonly string[]): Promise<Taken> {
  return new Promise((resolve, reject) => {
    const child = fork(path.join(import.meta.dirname, script), given, { env: processEnv });
    let taken: Taken | null = null;
    child.on('message', (message) => {
      taken = message as Taken;
    });
    child.on('exit', (code) => {
      if (code === 0 && taken) resolve(taken);
      else reject(new Error(`${script} ended with ${code}`));
    });
  });
}
