import { startApi } from './api-process.ts';
import { readConfigOrExit } from './read-config.ts';
import { runProcess } from './run-process.ts';
import { startWorker } from './worker-process.ts';

await runProcess('sluice', readConfigOrExit('sluice'), async (foundation, keep) => {
  keep(await startWorker(foundation));
  const api = keep(await startApi(foundation));
  process.stdout.write(`ready ${api.address}\n`);
});
