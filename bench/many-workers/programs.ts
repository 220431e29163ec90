import { type ChildProcess, spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { Client } from 'pg';

const build = path.resolve(import.meta.dirname, '../../..');

/** The processes of a benchmark, and their CPU times. Linux only. */
export class Programs {
  readonly #ticksPerSecond: number;
  readonly #children: ChildProcess[] = [];

  constructor(ticksPerSecond: number) {
    this.#ticksPerSecond = ticksPerSecond;
  }

  /** Starts a program of the build. @returns the first group of `ready`, and the process */
  async start(
    program: string,
    options: readonly string[],
    env: NodeJS.ProcessEnv,
    ready: RegExp,
  ): Promise<[string, ChildProcess]> {
    const child = spawn(process.execPath, [path.join(build, program), ...options], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#children.push(child);
    let output = '';
    for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
      output += String(chunk);
      const match = ready.exec(output);
      if (!match) continue;
      child.stdout.resume();
      return [match[1] ?? '', child];
    }
    throw new Error(`${program} ended: ${output}`);
  }

  /** Starts a `redis-server` that keeps nothing. @returns its address */
  async startRedis(): Promise<string> {
    const port = await new Promise<number>((found) => {
      const server = createServer().listen(0, '127.0.0.1', () => {
        const address = server.address();
        server.close(() => found(typeof address === 'object' ? (address?.port ?? 0) : 0));
      });
    });
    const options = ['--save', '', '--bind', '127.0.0.1', '--maxmemory-policy', 'noeviction'];
    this.#children.push(
      spawn('redis-server', ['--port', String(port), ...options], { stdio: 'ignore' }),
    );
    return `redis://127.0.0.1:${port}`;
  }

  async end(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
  }

  async endAll(): Promise<void> {
    for (const child of this.#children.toReversed()) await this.end(child);
  }

  /** CPU time of processes so far. */
  async cpuSeconds(children: readonly ChildProcess[]): Promise<number> {
    const stats = await Promise.all(children.map(({ pid }) => readStat(String(pid))));
    return stats.reduce((sum, stat) => sum + (stat?.own ?? 0), 0) / this.#ticksPerSecond;
  }

  /** CPU time so far of the PostgreSQL at `url` and of all its processes, the ended ones too. */
  async cpuSecondsOf(url: string): Promise<number> {
    const client = new Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    const backend = await readStat(String(rows[0]?.pid));
    await client.end();
    if (!backend) return Number.NaN;
    let ticks = 0;
    for (const pid of await readdir('/proc')) {
      const stat = /^\d+$/.test(pid) ? await readStat(pid) : null;
      if (stat?.parent === backend.parent) ticks += stat.own;
      if (pid === backend.parent && stat) ticks += stat.own + stat.ended;
    }
    return ticks / this.#ticksPerSecond;
  }
}

/** proc(5): the fields after the name, which is in brackets. */
async function readStat(pid: string) {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  if (!fields) return null;
  const sum = (from: number) => Number(fields[from]) + Number(fields[from + 1]);
  return { parent: fields[1] ?? '', own: sum(11), ended: sum(13) };
}
