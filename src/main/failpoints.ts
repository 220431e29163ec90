import { setTimeout as sleep } from 'node:timers/promises';
import { readFailpoints } from '../config/failpoints.ts';
import { type ErrorCode, errorCatalogue, SluiceError } from '../domain/errors.ts';
import { armFailpoints, type FailpointName, failpointNames } from '../domain/failpoints.ts';

const mebibyte = 1024 ** 2;
const childPrefix = 'child:';

interface Failpoint {
  readonly text: string;
  /** Which of the hits it strikes at, from 1; null: each. */
  readonly nth: number | null;
  readonly act: () => Promise<void> | void;
  hits: number;
}

/**
 * Arms what FAILPOINTS asks for, for example `mid_part=kill;before_record=delay(500)@2`:
 * kill and stop (SIGKILL and SIGSTOP to this very process), abort (a crash), exit(code), fill and
 * grow (memory beside the heap or in it, without end), error(code of the catalogue), delay(ms), hold
 * (until SIGWINCH comes to the process);
 * `@n` strikes at the n-th hit only; `child:mid_part=kill` in processes of a single run only.
 *
 * @throws Error that says what is not understood
 */
export function installFailpoints(spec = readFailpoints(), inChild = false): void {
  if (spec === '') return;
  const meant = spec.split(';').filter((text) => inChild || !text.startsWith(childPrefix));
  const failpoints = new Map(
    meant.map((text) => parseFailpoint(text.replace(new RegExp(`^${childPrefix}`), ''))),
  );
  armFailpoints(async (name) => {
    const failpoint = failpoints.get(name);
    if (!failpoint) return;
    failpoint.hits += 1;
    if (failpoint.nth !== null && failpoint.nth !== failpoint.hits) return;
    process.stderr.write(`failpoint ${failpoint.text}\n`);
    await failpoint.act();
  });
}

function parseFailpoint(text: string): [FailpointName, Failpoint] {
  const match = /^(\w+)=(\w+)(?:\(([\w.]+)\))?(?:@(\d+))?$/.exec(text);
  const name = failpointNames.find((candidate) => candidate === match?.[1]);
  const act = match && actionOf(match[2] ?? '', match[3] ?? '');
  if (!name || !act) throw new Error(`FAILPOINTS: ${text} is not understood`);
  return [name, { text, nth: match[4] ? Number(match[4]) : null, act, hits: 0 }];
}

function actionOf(action: string, argument: string): Failpoint['act'] | null {
  switch (action) {
    case 'kill':
      return () => void process.kill(process.pid, 'SIGKILL');
    case 'stop':
      return () => void process.kill(process.pid, 'SIGSTOP');
    case 'abort':
      return () => process.abort();
    case 'exit':
      return () => process.exit(Number(argument));
    case 'fill':
      return () => takeMemory(() => Buffer.alloc(mebibyte, 1));
    case 'grow':
      return () =>
        takeMemory(() => Array.from({ length: mebibyte / 8 }, (_, index) => index + 0.5));
    case 'hold':
      return () => new Promise((resolve) => void process.once('SIGWINCH', () => resolve()));
    case 'delay':
      return () => sleep(Number(argument));
    case 'error':
      if (!Object.hasOwn(errorCatalogue, argument)) return null;
      return () => {
        throw new SluiceError(argument as ErrorCode, 'by a failpoint');
      };
    default:
      return null;
  }
}

/** Never returns: what `take` makes, about a MiB each, stays. */
async function takeMemory(take: () => object): Promise<void> {
  const taken: object[] = [];
  for (;;) {
    for (let count = 0; count < 8; count += 1) taken.push(take());
    await sleep(5);
  }
}
