import { cpuSeconds } from './processes.ts';

const parts = ['api', 'worker', 'postgres', 'redis', 's3'] as const;

/** The processes of an installation, or what each takes. Of an all in one, the worker is all of it. */
export type PerProcess = Readonly<Record<(typeof parts)[number], number>>;

/** @param pids 0 if there is none. @returns CPU seconds so far, with those of children */
export async function cpuOf(pids: PerProcess): Promise<PerProcess> {
  const seconds = await Promise.all(parts.map((part) => cpuSeconds(pids[part])));
  return ofParts((_, n) => seconds[n] ?? 0);
}

/** CPU seconds of `work`, and its wall time. */
export async function takeCpu<Result>(pids: PerProcess, work: () => Promise<Result>) {
  const before = await cpuOf(pids);
  const began = performance.now();
  const result = await work();
  const seconds = (performance.now() - began) / 1_000;
  const after = await cpuOf(pids);
  return { result, seconds, cpu: ofParts((part) => after[part] - before[part]) };
}

/** Milliseconds per run. */
export function perRun(cpu: PerProcess, runs: number): PerProcess {
  return ofParts((part) => (cpu[part] * 1_000) / runs);
}

export function sumOf(all: readonly PerProcess[]): PerProcess {
  return ofParts((part) => all.reduce((sum, each) => sum + each[part], 0));
}

/** Of all processes that belong to the installation: the store does not. */
export function totalOf({ api, worker, postgres, redis }: PerProcess): number {
  return api + worker + postgres + redis;
}

function ofParts(value: (part: (typeof parts)[number], n: number) => number): PerProcess {
  return Object.fromEntries(parts.map((part, n) => [part, value(part, n)])) as PerProcess;
}
