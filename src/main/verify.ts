import type { Config } from '../config/config.ts';
import type { Database } from '../store/database.ts';
import { type VerifyReport, verifyExports } from '../verify/verify-exports.ts';
import {
  destinationContextOf,
  destinationOf,
  joinConnectors,
  readRowsBy,
  registry,
} from './connectors.ts';
import { openSecretBox } from './encryption-keys.ts';
import { joinSources, loadModels } from './models.ts';

/** Joins sources, encoders and destinations for `sluice verify`. */
export async function verifyInstallation(
  config: Config,
  db: Database,
  sourceUrl: string,
  exportId: string | null,
): Promise<VerifyReport> {
  const context = destinationContextOf(config);
  const sourceOf = joinSources(config, loadModels(config), sourceUrl);
  const connectors = joinConnectors(sourceOf, context, await openSecretBox(config));
  try {
    return await verifyExports(db, exportId, (batchExport) => ({
      destination: connectors.openDestination({ ...batchExport, exportId: batchExport.id }),
      keepsFiles: destinationOf(registry, batchExport.destination.type).keepsFiles,
      source: sourceOf(batchExport.model),
      readRows: readRowsBy(registry),
    }));
  } finally {
    // Idle sockets would keep the process alive.
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}
