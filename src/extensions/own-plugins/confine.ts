import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import os from 'node:os';

/** For what Node takes outside the heap of the plugin. */
const spareMib = 64;
/** Seconds of processor time that a process has left if its parent dies. */
const orphanSeconds = 120;
/** The niceness of a sandbox above its parent's: of a busy core it gets about a thirtieth of the parent's time. */
const niceness = 15;

/**
 * Takes from a running process, by the kernel's limits, what it does not need any more: new files, sockets
 * and threads, core dumps, and memory beyond what it has now and this much. Native code cannot undo
 * it.
 *
 * @returns whether the system could do it: not on macOS, and not without util-linux
 */
export async function confine(pid: number, memoryMib: number): Promise<boolean> {
  // If the machine is out of memory, the kernel ends this process before the worker.
  await writeFile(`/proc/${pid}/oom_score_adj`, '1000').catch(() => {});
  yieldToParent(pid);
  const dataBytes = readDataBytes(pid);
  if (dataBytes === null) return false;
  const data = dataBytes + (memoryMib + spareMib) * 1024 ** 2;
  const limits = ['--nofile=0:0', '--nproc=0:0', '--core=0:0', `--data=${data}:${data}`];
  return setLimits(pid, [...limits, `--cpu=${orphanSeconds}:`]);
}

/**
 * A plugin that computes without end must not slow down the runs and requests of others. Limits of time
 * count processor time, so a busy machine does not make a plugin fail.
 */
function yieldToParent(pid: number): void {
  try {
    os.setPriority(pid, Math.min(os.getPriority() + niceness, os.constants.priority.PRIORITY_LOW));
  } catch {
    // The process has ended.
  }
}

/** Processor time that a process has used; null if the system does not say. */
export function readCpuMs(pid: number): number | null {
  const text = readProcess(pid, 'stat');
  // The name of the program, in brackets, may hold blanks.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return Number.isFinite(ticks) ? ticks * 10 : null;
}

/** Lets a process that has used this much run on. */
export async function extendCpu(pid: number, usedMs: number): Promise<void> {
  await setLimits(pid, [`--cpu=${Math.ceil(usedMs / 1_000) + orphanSeconds}:`]);
}

/** Says whether a process should get more time now; checked against what it had at the last extension. */
export function needsCpu(usedMs: number, extendedAtMs: number): boolean {
  return usedMs - extendedAtMs > (orphanSeconds * 1_000) / 2;
}

/** The kernel answers from memory: a thread of the pool would take a hundred times as long. */
function readProcess(pid: number, file: 'stat' | 'status'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

function readDataBytes(pid: number): number | null {
  const text = readProcess(pid, 'status');
  const kib = /^VmData:\s+(\d+) kB/m.exec(text)?.[1];
  return kib === undefined ? null : Number(kib) * 1024;
}

/** Resident memory; 0 if the system does not say. */
export function readResidentBytes(pid: number): number {
  const text = readProcess(pid, 'status');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024;
}

function setLimits(pid: number, limits: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    execFile('prlimit', ['--pid', String(pid), ...limits], (error) => resolve(!error));
  });
}
