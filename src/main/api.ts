import { startApi } from './api-process.ts';
import { runProcess } from './run-process.ts';

await runProcess('api', async (foundation) => {
  const api = await startApi(foundation);
  process.stdout.write(`ready ${api.address}\n`);
  return [api];
});
