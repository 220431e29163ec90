import { join } from 'node:path';
import { type Config, readConfig } from '../../config/config.ts';
import { startApi } from '../api-process.ts';
import { runProcess } from '../run-process.ts';
import { startWorker } from '../worker-process.ts';
import { type QuickstartS3, startLocalS3 } from './local-s3.ts';
import { quickstart } from './quickstart.ts';
import { ensureTenant } from './tenant.ts';

/**
 * Starts everything in this process, exports a day of made-up events and proves it; then it is the
 * daemon that it started.
 *
 * @param exit end afterwards; the exit code is not 0 where something was not proven
 */
export async function runQuickstart(exit: boolean, print: (line: string) => void): Promise<void> {
  const given = readConfig();
  const s3 = await openS3(given);
  const config = {
    ...given,
    LOG_LEVEL: process.stdout.isTTY || exit ? ('warn' as const) : given.LOG_LEVEL,
    ALLOWED_PRIVATE_ENDPOINTS: [...given.ALLOWED_PRIVATE_ENDPOINTS, new URL(s3.endpoint).host],
  };
  await runProcess('quickstart', config, config.PORT, async (foundation, keep, end) => {
    keep({ close: () => s3.stop() });
    keep(await startWorker(foundation));
    const { address } = keep(await startApi(foundation));
    const tenant = await ensureTenant(foundation.db, config.SLUICE_DATA_DIR);
    const shown = { foundation, config, address, s3, tenant, print };
    const proven = await quickstart({ ...shown, alwaysProve: exit });
    if (!proven) process.exitCode = 1;
    print(`
  API            ${address}/api/projects/${tenant.projectId}/batch_exports/
  documentation  ${address}/api/docs
  page           ${address}/console/
  queues         ${address}/admin/queues   (the key as password)
  key            ${tenant.key}
`);
    print(`ready ${address}`);
    if (exit) await end();
  });
}

async function openS3(config: Config): Promise<QuickstartS3> {
  const endpoint = config.QUICKSTART_S3_ENDPOINT;
  if (endpoint === null) return startLocalS3(join(config.SLUICE_DATA_DIR, 's3'));
  return {
    endpoint,
    bucket: config.QUICKSTART_S3_BUCKET,
    accessKeyId: config.QUICKSTART_S3_KEY ?? '',
    secretAccessKey: config.QUICKSTART_S3_SECRET ?? '',
    kept: true,
    stop: async () => {},
  };
}
