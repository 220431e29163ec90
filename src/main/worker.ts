import { readConfigOrExit } from './read-config.ts';
import { runProcess } from './run-process.ts';
import { startWorker } from './worker-process.ts';

await runProcess('worker', readConfigOrExit('worker'), async (foundation, keep) => {
  keep(await startWorker(foundation));
  process.stdout.write('ready worker\n');
});
