import { startApi } from './api-process.ts';
import { runProcess } from './run-process.ts';
import { startWorker } from './worker-process.ts';

await runProcess('sluice', async (foundation, keep) => {
  keep(await startWorker(foundation));
  const api = keep(await startApi(foundation));
  process.stdout.write(`ready ${api.address}\n`);
});
