import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { until } from '../support/until.ts';

/** The programs of one store and their folder. All of it ends with `stop`, or with this process. */
export interface Daemons {
  /** For settings, data and logs; removed at the end. */
  readonly folder: string;
  /** Runs a program to its end. @returns its standard output. Fails with what it printed. */
  run(program: string, ...args: readonly string[]): Promise<string>;
  /** Starts a program that runs on. It writes to `<name>.log` in the folder. */
  start(name: string, program: string, ...args: readonly string[]): void;
  /** Waits until `answers` gives true. Fails with the logs when time is up or a program has ended. */
  untilReady(what: string, answers: () => Promise<boolean>): Promise<void>;
  stop(): Promise<void>;
}

const folderPrefix = 'sluice-stores-';
const commandTimeoutMs = 180_000;
const readyTimeoutMs = 120_000;

export async function openDaemons(name: string): Promise<Daemons> {
  await clearAbandoned();
  const folder = await mkdtemp(path.join(tmpdir(), `${folderPrefix}${process.pid}-${name}-`));
  const running = new Map<string, ChildProcess>();
  const ended: string[] = [];
  const readLogs = async (): Promise<string> => {
    const logs = (await readdir(folder)).filter((file) => file.endsWith('.log'));
    const tails = logs.map(
      async (log) => `${log}:\n${(await readFile(path.join(folder, log), 'utf8')).slice(-1500)}`,
    );
    return (await Promise.all(tails)).join('\n');
  };
  return {
    folder,
    run: async (program, ...args) => {
      const done = await promisify(execFile)(program, args, {
        cwd: folder,
        timeout: commandTimeoutMs,
      });
      return done.stdout;
    },
    start(daemon, program, ...args) {
      const log = openSync(path.join(folder, `${daemon}.log`), 'a');
      // The kernel ends it with us, also if we are killed.
      const command = ['--pdeathsig', 'KILL', program, ...args];
      const child = spawn('setpriv', command, { cwd: folder, stdio: ['ignore', log, log] });
      closeSync(log);
      running.set(daemon, child);
      child.once('error', () => ended.push(daemon));
      child.once('exit', () => {
        running.delete(daemon);
        ended.push(daemon);
      });
    },
    async untilReady(what, answers) {
      try {
        await until(async () => ended.length > 0 || (await answers()), {
          timeoutMs: readyTimeoutMs,
          everyMs: 200,
          message: what,
        });
        if (ended.length > 0) throw new Error(`${ended.join(', ')} ended before this: ${what}.`);
      } catch (error) {
        throw new Error(`${(error as Error).message}\n${await readLogs()}`);
      }
    },
    async stop() {
      // Their data goes too, so nothing is lost by it.
      for (const child of running.values()) child.kill('SIGKILL');
      await until(() => running.size === 0, { message: `the programs of ${name} have ended` });
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Removes the folders of runs that were killed. Their programs ended with them. */
async function clearAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = new RegExp(`^${folderPrefix}(\\d+)-`).exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    await rm(path.join(tmpdir(), name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Ports of 127.0.0.1 that are free now, each another. */
export async function findFreePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = servers.map(
    (server) =>
      new Promise<number>((resolve, reject) => {
        server.once('error', reject);
        server.listen(0, '127.0.0.1', () => {
          const address = server.address();
          resolve(typeof address === 'object' && address ? address.port : 0);
        });
      }),
  );
  const found = await Promise.all(ports);
  await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))));
  return found;
}
