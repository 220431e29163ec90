import { readConfig } from '../../foundation/config/config.ts';
import { startApi } from '../../main/api-process.ts';
import { runProcess } from '../../main/run-process.ts';
import { startWorker } from '../../main/worker-process.ts';
import type { CliDeps } from '../cli/deps.ts';
import { quickstart } from './quickstart.ts';
import { allowQuickstartS3, openQuickstartS3, placeQuickstartS3 } from './local-s3.ts';
import { ensureTenant } from './tenant.ts';

/**
 * Starts everything in this process, exports a day of generated events and proves it; then keeps serving.
 *
 * @param exit end afterwards; the exit code is not 0 if something was not proven
 * @param rows events to write, if there are none
 */
export async function runQuickstart(
  { exit, rows }: { readonly exit: boolean; readonly rows: number },
  { terminal, print }: Pick<CliDeps, 'terminal' | 'print'>,
): Promise<void> {
  const given = readConfig();
  await placeQuickstartS3(given);
  const config = {
    ...(await allowQuickstartS3(given)),
    LOG_LEVEL: terminal.isTerminal || exit ? ('warn' as const) : given.LOG_LEVEL,
  };
  await runProcess('quickstart', config, config.PORT, async (foundation, keep, end) => {
    const s3 = await openQuickstartS3(config);
    if (!s3) throw new Error('the S3 of the quickstart has no address');
    keep({ close: () => s3.stop() });
    keep(await startWorker(foundation));
    const { address } = keep(await startApi(foundation));
    await foundation.databases.publish(address);
    const tenant = await ensureTenant(foundation.db, config.SLUICE_DATA_DIR);
    const shown = { foundation, config, address, s3, tenant, rows, terminal, print };
    const proven = await quickstart({ ...shown, alwaysProve: exit });
    if (!proven) process.exitCode = 1;
    const lines = [
      '',
      `  API            ${address}/api/projects/${tenant.projectId}/batch_exports/`,
      `  documentation  ${address}/api/docs`,
      `  page           ${address}/console/`,
      `  queues         ${address}/admin/queues   (the operator key as password)`,
      `  key            ${tenant.key}`,
      `  operator key   ${tenant.operatorKey}`,
      `  S3             ${s3.endpoint}   (bucket ${s3.bucket}, access key ${s3.accessKeyId}, secret key ${s3.secretAccessKey})`,
      '',
      `ready ${address}`,
    ];
    for (const line of lines) print(line);
    if (exit) await end();
  });
}
