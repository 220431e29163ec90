import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCatalogue, SluiceError } from '../../../dist/foundation/domain/errors.js';
import { armFailpoints, failpointNames } from '../../../dist/foundation/failpoints/failpoint.js';

const mebibyte = 1024 ** 2;
const childPrefix = 'child:';

/**
 * Preloaded (`node --import`) into a process of the build under test. Arms what FAILPOINTS asks for, for
 * example `mid_part=kill;before_record=delay(500)@2`: kill and stop (SIGKILL and SIGSTOP to the process
 * itself), abort (a crash), exit(code), fill and grow (memory beside the heap or in it, without end),
 * error(code of the catalogue), delay(ms), hold (until the process gets SIGWINCH).
 * `@n` acts on the n-th time only; `child:mid_part=kill` in processes of a single run only.
 */
const isChild = path.basename(process.argv[1] ?? '') === 'child-run.js';
const failpoints = new Map(
  (process.env.FAILPOINTS ?? '')
    .split(';')
    .filter((text) => text !== '' && (isChild || !text.startsWith(childPrefix)))
    .map((text) => parseFailpoint(text.replace(new RegExp(`^${childPrefix}`), ''))),
);
armFailpoints(async (name) => {
  const failpoint = failpoints.get(name);
  if (!failpoint) return;
  failpoint.hits += 1;
  if (failpoint.nth !== null && failpoint.nth !== failpoint.hits) return;
  process.stderr.write(`failpoint ${failpoint.text}\n`);
  await failpoint.act();
});

function parseFailpoint(text) {
  const match = /^(\w+)=(\w+)(?:\(([\w.]+)\))?(?:@(\d+))?$/.exec(text);
  const name = failpointNames.find((candidate) => candidate === match?.[1]);
  const act = match && actionOf(match[2] ?? '', match[3] ?? '');
  if (!name || !act) throw new Error(`FAILPOINTS: ${text} is not understood`);
  return [name, { text, nth: match[4] ? Number(match[4]) : null, act, hits: 0 }];
}

function actionOf(action, argument) {
  switch (action) {
    case 'kill':
      return () => process.kill(process.pid, 'SIGKILL');
    case 'stop':
      return () => process.kill(process.pid, 'SIGSTOP');
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
      return () => new Promise((resolve) => process.once('SIGWINCH', resolve));
    case 'delay':
      return () => sleep(Number(argument));
    case 'error':
      if (!Object.hasOwn(errorCatalogue, argument)) return null;
      return () => {
        throw new SluiceError(argument, 'by a failpoint');
      };
    default:
      return null;
  }
}

/** Never returns: what `take` makes, about a MiB each, stays. */
async function takeMemory(take) {
  const taken = [];
  for (;;) {
    for (let count = 0; count < 8; count += 1) taken.push(take());
    await sleep(5);
  }
}
