import { join } from 'node:path';
import type { Command } from 'commander';
import { type Config, readConfig } from '../config/config.ts';
import { startApi } from '../main/api-process.ts';
import { type QuickstartS3, startLocalS3 } from '../main/quickstart/local-s3.ts';
import { quickstart } from '../main/quickstart/quickstart.ts';
import { ensureTenant } from '../main/quickstart/tenant.ts';
import { runProcess } from '../main/run-process.ts';
import { startWorker } from '../main/worker-process.ts';
import type { CliDeps } from './deps.ts';

/** `sluice quickstart`: the service with something to look at. */
export function register(program: Command, deps: CliDeps): void {
  program
    .command('quickstart')
    .description('start everything, export a day of made-up events to S3 and prove it')
    .option('--exit', 'end afterwards: 0 where everything was proven')
    .action(async ({ exit }: { exit?: boolean }) => {
      const given = readConfig();
      const s3 = await openS3(given);
      const config = {
        ...given,
        LOG_LEVEL: process.stdout.isTTY || exit ? ('warn' as const) : given.LOG_LEVEL,
        ALLOWED_PRIVATE_ENDPOINTS: [...given.ALLOWED_PRIVATE_ENDPOINTS, new URL(s3.endpoint).host],
      };
      await runProcess('quickstart', config, async (foundation, keep, end) => {
        keep({ close: () => s3.stop() });
        keep(await startWorker(foundation));
        const { address } = keep(await startApi(foundation));
        const tenant = await ensureTenant(foundation.db, config.SLUICE_DATA_DIR);
        const print = deps.print;
        const proven = await quickstart({
          foundation,
          config,
          address,
          s3,
          tenant,
          alwaysProve: exit ?? false,
          print,
        });
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
