import type { ChildProcess } from 'node:child_process';
import { end, freePort, type Processes } from './processes.ts';

/** How an installation runs: one process with the queue in PostgreSQL, or an API and a worker with Redis. */
export type Shape = 'all-in-one' | 'processes';

/** A running installation. */
export interface Service {
  /** The address of its API. */
  readonly api: string;
  /** Ends its worker and starts another one; of an all in one all of it. Starts the first one too. */
  renewWorker(): Promise<void>;
  /** Of its processes; an all in one is a worker without an API. 0: there is none. */
  pids(): { readonly api: number; readonly worker: number };
}

export function parseShape(text: string): Shape {
  if (text === 'all-in-one' || text === 'processes') return text;
  throw new Error(`--shape is ${text}. Use all-in-one or processes.`);
}

/** How docs/internals/benchmarks.md names an installation. */
export function nameOf(shape: Shape, postgres: string): string {
  return `${shape === 'all-in-one' ? 'one process' : 'API and worker'}, ${postgres}`;
}

export async function startService(
  processes: Processes,
  shape: Shape,
  env: NodeJS.ProcessEnv,
): Promise<Service> {
  const own = { ...env, PORT: String(await freePort()) };
  const startPart = async (name: string, ready: RegExp) =>
    (await processes.start(`main/${name}.js`, [], own, ready)).child;
  const isOne = shape === 'all-in-one';
  const startWorker = () =>
    isOne ? startPart('all-in-one', /^ready (http\S+)/m) : startPart('worker', /^ready worker/m);
  const api = isOne ? null : await startPart('api', /^ready (http\S+)/m);
  let worker: ChildProcess | null = isOne ? await startWorker() : null;
  return {
    api: `http://127.0.0.1:${own.PORT}`,
    async renewWorker() {
      if (worker) await end(worker);
      worker = await startWorker();
    },
    pids: () => ({ api: api?.pid ?? 0, worker: worker?.pid ?? 0 }),
  };
}
