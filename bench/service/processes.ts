import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import type pg from 'pg';

const build = path.resolve(import.meta.dirname, '../../..');

/** What the local S3 of a benchmark takes. */
export const s3Credentials = { id: 'AKIABENCH0000000001', secret: 'bench-secret' };

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** The processes of one installation, each a program of its own. */
export class Processes {
  readonly #children: ChildProcess[] = [];

  /**
   * Starts one of our programs and waits for the line that says that it is ready.
   *
   * @param program below dist
   * @param ready its first group is what the line names
   * @param talks whether it gets messages
   */
  async start(
    program: string,
    options: readonly string[],
    env: NodeJS.ProcessEnv,
    ready: RegExp,
    talks = false,
  ): Promise<{ readonly named: string; readonly child: ChildProcess }> {
    const child = spawn(process.execPath, [path.join(build, program), ...options], {
      env,
      stdio: talks ? ['ignore', 'pipe', 'inherit', 'ipc'] : ['ignore', 'pipe', 'inherit'],
    });
    if (child.stdout === null) throw new Error(`${program} has no output`);
    this.#children.push(child);
    let output = '';
    for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
      output += String(chunk);
      const match = ready.exec(output);
      if (!match) continue;
      child.stdout.resume();
      return { named: match[1] ?? '', child };
    }
    throw new Error(`${program} ended: ${output}`);
  }

  /** Starts a Redis that keeps nothing. */
  async startRedis(): Promise<{ readonly url: string; readonly child: ChildProcess }> {
    const port = await freePort();
    const options = ['--save', '', '--bind', '127.0.0.1', '--maxmemory-policy', 'noeviction'];
    const child = spawn('redis-server', ['--port', String(port), ...options], { stdio: 'ignore' });
    this.#children.push(child);
    return { url: `redis://127.0.0.1:${port}`, child };
  }

  /** Starts a local S3 with the bucket `exports`. @returns its addresses; `control` takes faults */
  async startS3(): Promise<{
    readonly endpoint: string;
    readonly control: string;
    readonly child: ChildProcess;
  }> {
    const { named, child } = await this.start(
      'bench/test/support/s3-server/main.js',
      [
        '--bucket=exports',
        `--access-key-id=${s3Credentials.id}`,
        `--secret-access-key=${s3Credentials.secret}`,
        '--region=us-east-1',
      ],
      process.env,
      /^ready (\{.*\})$/m,
    );
    const { endpoint, control } = JSON.parse(named) as { endpoint: string; control: string };
    return { endpoint, control, child };
  }

  /** Ends all, those that began last first. */
  async endAll(): Promise<void> {
    for (const child of this.#children.toReversed()) await end(child);
  }
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

export function freePort(): Promise<number> {
  return new Promise((found) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => found(typeof address === 'object' ? (address?.port ?? 0) : 0));
    });
  });
}

/**
 * CPU time in seconds that a process and its children have taken so far, also children that have ended.
 * Linux only.
 *
 * @param pid 0: no process, which takes nothing
 */
export async function cpuSeconds(pid: number): Promise<number> {
  if (pid === 0) return 0;
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(names.map((name) => statOf(name).catch(() => null)));
  const ticks = all.map((stat) => {
    if (stat?.pid === pid) return stat.own + stat.ended;
    return stat?.parent === pid ? stat.own : 0;
  });
  return ticks.reduce((sum, each) => sum + each, 0) / ticksPerSecond;
}

/** Clock ticks of a process, and of its children that have ended. */
async function statOf(name: string) {
  const text = await readFile(`/proc/${name}/stat`, 'utf8');
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15);
  return {
    pid: Number(name),
    parent: fields[1],
    own: user + system,
    ended: endedUser + endedSystem,
  };
}

/** The process whose children serve the connections of this pool. */
export async function postmasterOf(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ text: string }>(
    `select pg_read_file('postmaster.pid') as text`,
  );
  return Number(rows[0]?.text.split('\n')[0]);
}
