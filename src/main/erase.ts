import { ownSteps } from '../extensions/own-plugins/own-plugins.ts';
import type { Config } from '../foundation/config/config.ts';
import type { ErasedValue } from '../foundation/domain/erased-value.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { describeError } from '../foundation/domain/describe-error.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import type { DataInterval } from '../foundation/domain/time.ts';
import { countInSource } from '../rows/pipeline/render-interval.ts';
import type { SecretBox } from '../foundation/security/secret-box.ts';
import type { Database } from '../state/store/database/database.ts';
import { listReceipts } from '../state/store/intervals/receipts.ts';
import {
  listVerifiedExports,
  type VerifiedExport,
} from '../state/store/intervals/verify-queries.ts';
import { sourceRequestOf } from '../service/use-cases/runs/source-request.ts';
import { openChain } from '../service/use-cases/transformations/open-chain.ts';
import {
  findValue,
  type SearchedExport,
  type SearchedInterval,
} from '../service/verify/find-value.ts';
import type { Connectors } from '../service/worker/connectors.ts';
import { findTenantKey } from '../state/store/tenants/tenants.ts';
import {
  destinationContextOf,
  destinationOf,
  joinConnectors,
  readRowsBy,
  registry,
} from './connectors.ts';
import { openSecretBox } from './encryption-keys.ts';
import { joinSources, loadModels } from './models.ts';

export type { SearchedInterval };

export interface OpenSearch extends Pick<SearchedExport, 'destination'> {
  readonly keyColumns: readonly string[];
  /** True if the export has left places at which it had files. */
  readonly hasMoved: boolean;
  readonly secrets: SecretBox;
  /** Reads the current files; see `findValue`. */
  find(
    wanted: ErasedValue,
    after: DataInterval | null,
    only: ((interval: DataInterval) => boolean) | null,
  ): AsyncIterable<SearchedInterval>;
  /** The number of rows with the value that the source has for an interval now; a text says why that is not known. */
  countInSource(
    interval: DataInterval,
    wanted: ErasedValue,
    signal: AbortSignal,
  ): Promise<number | string>;
}

/** Opens the files of an export for `sluice erase`. @returns null if there is no such export, or it keeps no files */
export async function searchExport<T>(
  config: Config,
  db: Database,
  sourceUrl: string,
  exportId: string,
  work: (search: OpenSearch) => Promise<T>,
): Promise<T | null> {
  const [batchExport] = await listVerifiedExports(db, exportId);
  if (!batchExport) return null;
  if (!destinationOf(registry, batchExport.destination.type).keepsFiles) return null;
  const models = loadModels(config);
  const keyColumns =
    models.find(({ model }) => model.name === batchExport.model)?.model.keyColumns ?? [];
  const context = destinationContextOf(config);
  const secrets = await openSecretBox(config);
  const connectors = joinConnectors(joinSources(config, models, sourceUrl), context, secrets);
  try {
    const destination = connectors.openDestination({ ...batchExport, exportId });
    try {
      const search = { sql: db, batchExport, destination, readRows: readRowsBy(registry) };
      return await work({
        destination,
        keyColumns,
        secrets,
        hasMoved: batchExport.destinationVersion > 0,
        find: (...asked) => findValue(search, ...asked),
        countInSource: (...asked) => countNow({ db, secrets, connectors, batchExport }, ...asked),
      });
    } finally {
      await destination.close();
    }
  } finally {
    // Idle sockets would keep the process alive.
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}

interface Asked {
  readonly db: Database;
  readonly secrets: SecretBox;
  readonly connectors: Connectors;
  readonly batchExport: VerifiedExport;
}

async function countNow(
  { db, secrets, connectors, batchExport }: Asked,
  interval: DataInterval,
  wanted: ErasedValue,
  signal: AbortSignal,
): Promise<number | string> {
  const { id, teamId, mode, model, dslQuery, destination } = batchExport;
  const { start, end } = interval;
  const [receipt] = await listReceipts(db, id, { start, end: end - 1 }, 1);
  // The settings that made its files; the export may have changed since.
  const files = { ...readFileSettings(destination.config), ...receipt?.recipe };
  const recipe = receipt?.recipe ?? { dslQuery };
  try {
    const chain = await openChain({ db, secrets, ownSteps }, teamId, receipt?.recipe?.chain ?? []);
    const request = sourceRequestOf(
      {
        model,
        mode,
        tenantKey: await findTenantKey(db, teamId),
        ...files,
        dslQuery: recipe.dslQuery,
      },
      interval,
    );
    const encoding = connectors.encodingOf(files);
    const rendering = { interval, request, encoding, steps: chain?.steps ?? [] };
    return await countInSource(rendering, wanted, connectors.sourceOf(model), signal);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return describeError(error);
  }
}
