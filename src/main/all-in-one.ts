import { startApi } from './api-process.ts';
import { readConfigOrExit } from './read-config.ts';
import { runProcess } from './run-process.ts';
import { startWorker } from './worker-process.ts';

const config = readConfigOrExit('sluice');
await runProcess('sluice', config, config.PORT, async (foundation, keep) => {
  keep(await startWorker(foundation));
  const api = keep(await startApi(foundation));
  process.stdout.write(`ready ${api.address}\n`);
});
