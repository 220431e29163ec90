import type { FindTable } from '../service/api/options.ts';
import type { DestinationContext } from '../rows/destinations/destination.ts';
import { readFileSettings } from '../foundation/domain/file-settings.ts';
import { objectsOf } from '../rows/pipeline/table.ts';
import { findProject } from '../state/store/tenants/tenants.ts';
import { findTableAt } from '../rows/table-formats/iceberg/find-table.ts';
import type { Context } from '../service/use-cases/context.ts';
import { tableOf } from '../service/worker/table-of.ts';
import { destinationOf, type Registry } from './connectors.ts';

/** The folder of an export without an id yet cannot have one. */
const noId = '00000000-0000-0000-0000-000000000000';

/** Looks for a table at the place that a new export's is to have. */
export function findTableOf(
  known: Registry,
  context: DestinationContext,
  { db }: Pick<Context, 'db'>,
): FindTable {
  return async ({ teamId, model, type, config }, signal) => {
    // A folder with the id of the export is its own.
    if (readFileSettings(config).prefix.includes('{batch_export_id}')) return null;
    const uriOf = (_: string, own: typeof config, key: string) =>
      destinationOf(known, type).uri(own, key) ?? key;
    const asked = { exportId: noId, model, destination: { type, config, secrets: null } };
    const table = tableOf({ uriOf }, asked);
    const project = await findProject(db, teamId);
    if (!table || !project) return null;
    const { externalId } = project;
    const destination = destinationOf(known, type).open(config, context, { externalId });
    try {
      const found = await findTableAt(table, objectsOf(destination, signal));
      return found && { ...found, folder: table.folder };
    } finally {
      await destination.close();
    }
  };
}
