import type { Config } from '../config/config.ts';
import type { DataInterval } from '../domain/time.ts';
import type { Sql } from '../store/database.ts';
import { listVerifiedExports } from '../store/verify-queries.ts';
import {
  findValue,
  type SearchedExport,
  type SearchedInterval,
  type WantedValue,
} from '../verify/find-value.ts';
import {
  destinationContextOf,
  destinationOf,
  joinConnectors,
  readRowsBy,
  registry,
} from './connectors.ts';
import { openSecretBox } from './encryption-keys.ts';
import { joinSources, loadModels } from './models.ts';

export type { SearchedInterval, WantedValue };

export interface OpenSearch extends Pick<SearchedExport, 'destination'> {
  /** What identifies a row of its model. */
  readonly keyColumns: readonly string[];
  /** Reads the current files; see `findValue`. */
  find(
    wanted: WantedValue,
    after: DataInterval | null,
    only: ((interval: DataInterval) => boolean) | null,
  ): AsyncIterable<SearchedInterval>;
}

/**
 * Opens the files of an export for `sluice erase`.
 *
 * @returns what `work` returns; null if there is no such export, or its destination keeps no files
 */
export async function searchExport<T>(
  config: Config,
  sql: Sql,
  sourceUrl: string,
  exportId: string,
  work: (search: OpenSearch) => Promise<T>,
): Promise<T | null> {
  const [batchExport] = await listVerifiedExports(sql, exportId);
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
      const search = { sql, batchExport, destination, readRows: readRowsBy(registry) };
      const find: OpenSearch['find'] = (...asked) => findValue(search, ...asked);
      return await work({ destination, keyColumns, find });
    } finally {
      await destination.close();
    }
  } finally {
    // Idle sockets would keep the process alive.
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}
