import { allowQuickstartS3, openQuickstartS3 } from '../clients/quickstart/local-s3.ts';
import { startApi } from './api-process.ts';
import { readConfigOrExit, runProcess } from './run-process.ts';
import { startWorker } from './worker-process.ts';

const config = await allowQuickstartS3(readConfigOrExit('sluice'));
await runProcess('sluice', config, config.PORT, async (foundation, keep) => {
  const s3 = await openQuickstartS3(config).catch((error: unknown) => {
    foundation.logger.warn({ err: error }, "the quickstart's S3 could not be started again");
    return null;
  });
  if (s3) keep({ close: () => s3.stop() });
  keep(await startWorker(foundation));
  const api = keep(await startApi(foundation));
  await foundation.databases.publish(api.address);
  process.stdout.write(`ready ${api.address}\n`);
});
