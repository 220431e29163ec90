import { readFile, readlink, realpath, rm } from 'node:fs/promises';
import path from 'node:path';
import { runProgram } from './identity.ts';

/** The contents of `postmaster.pid`; its server may have ended long ago. */
export interface PidFile {
  readonly pid: number;
  /** Null while the server is still writing the file. */
  readonly port: number | null;
  readonly text: string;
}

/** Null if there is no such file: no server runs, or it ended in good order. */
export async function readPidFile(data: string): Promise<PidFile | null> {
  const text = await readFile(pidFileOf(data), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (text === null) return null;
  const lines = text.split('\n');
  const pid = Number.parseInt(lines[0] ?? '', 10);
  const port = Number.parseInt(lines[3] ?? '', 10);
  return {
    pid: Number.isNaN(pid) ? 0 : Math.abs(pid),
    port: Number.isNaN(port) ? null : port,
    text,
  };
}

/** The number alone is not enough: after a crash or in a new container it soon belongs to another program. */
export async function isServerOf(pid: number, data: string): Promise<boolean> {
  if (pid <= 0) return false;
  if (process.platform === 'linux') {
    // Every PostgreSQL process works in its data directory.
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => null);
    return cwd !== null && cwd === (await realpath(data).catch(() => null));
  }
  const listing = await runProgram('ps', ['-p', String(pid), '-o', 'command='], {});
  return listing.code === 0 && listing.output.includes('postgres');
}

export function isProcessAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Removes a `postmaster.pid` whose number belongs to another program; PostgreSQL would refuse to start. */
export async function discardPidFile(data: string, stale: PidFile): Promise<void> {
  if ((await readPidFile(data))?.text === stale.text) await rm(pidFileOf(data), { force: true });
}

const pidFileOf = (data: string): string => path.join(data, 'postmaster.pid');
