import { startApi } from './api-process.ts';
import { runProcess } from './run-process.ts';
import { startWorker } from './worker-process.ts';

await runProcess('sluice', async (foundation) => {
  const worker = await startWorker(foundation);
  const api = await startApi(foundation);
  process.stdout.write(`ready ${api.address}\n`);
  return [api, worker];
});
