import { startApi } from './api-process.ts';
import { readConfigOrExit, runProcess } from './run-process.ts';

const config = readConfigOrExit('api');
await runProcess('api', config, config.PORT, async (foundation, keep) => {
  const api = keep(await startApi(foundation));
  process.stdout.write(`ready ${api.address}\n`);
});
