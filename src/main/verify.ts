import type { Config } from '../config/config.ts';
import { renderInterval } from '../pipeline/render-interval.ts';
import type { Database } from '../store/database.ts';
import { openChain } from '../use-cases/transformations/open-chain.ts';
import {
  type OpenExport,
  type PlaceOf,
  type VerifyReport,
  verifyExports,
} from '../verify/verify-exports.ts';
import { tableOf } from '../worker/table-of.ts';
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
  const secrets = await openSecretBox(config);
  const connectors = joinConnectors(sourceOf, context, secrets);
  const placeOf: PlaceOf = (type, config) =>
    `${type} ${destinationOf(registry, type).place(config)}`;
  const open: OpenExport = (batchExport) => ({
    destination: connectors.openDestination({ ...batchExport, exportId: batchExport.id }),
    keepsFiles: destinationOf(registry, batchExport.destination.type).keepsFiles,
    table: tableOf(connectors, { ...batchExport, exportId: batchExport.id }),
    source: sourceOf(batchExport.model),
    readRows: readRowsBy(registry),
    async renderAgain({ exportId: id, interval }, recipe, request, folder, signal) {
      const chain = await openChain({ db, secrets }, batchExport.teamId, recipe.chain ?? []);
      const { maxFileBytes = null } = recipe;
      const encoding = connectors.encodingOf(recipe);
      const steps = chain?.steps ?? [];
      const job = { exportId: id, interval, request, encoding, maxFileBytes, steps };
      const here = destinationOf(registry, 'File').open(
        { directory: '' },
        { ...context, fileDestinationRoot: folder },
        { externalId: '' },
      );
      return renderInterval(job, sourceOf(batchExport.model), here, signal);
    },
  });
  try {
    return await verifyExports(db, exportId, open, placeOf);
  } finally {
    // Idle sockets would keep the process alive.
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}
