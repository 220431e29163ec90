import type { Plugin } from '../../../foundation/domain/plugin.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { Sql } from '../database/database.ts';
import { upToPageBytes, jsonBytes } from '../database/lists.ts';
import { inPages, queryNumber, queryOne, queryRows } from '../database/statement.ts';

/** A plugin as the catalogue holds it; a built-in one has no source and no times. */
export interface InstalledPlugin extends Plugin {
  readonly source: string | null;
  readonly createdAt: Timestamp | null;
  readonly updatedAt: Timestamp | null;
}

export interface PluginSettings
  extends Pick<Plugin, 'name' | 'description' | 'url' | 'configSchema'> {
  readonly source: string;
}

const columns = `p.id, p.organization_id as "organizationId", p.name, p.description, p.url,
  p.config_schema as "configSchema", p.source, p.created_at as "createdAt", p.updated_at as "updatedAt", '[]'::jsonb as jobs`;

/** In lists of steps no source is read: it may be large. */
const columnsOfList = columns.replace('p.source', 'null as source');

function valuesOf(plugin: PluginSettings): unknown[] {
  const { name, description, url, configSchema, source } = plugin;
  return [name, description, url, JSON.stringify(configSchema), source];
}

/** The plugins of those ids that are an organization's own. */
export async function findOwnPlugins(
  sql: Sql,
  organizationId: string,
  ids: readonly number[],
  withSource: boolean,
): Promise<InstalledPlugin[]> {
  return sql.query<InstalledPlugin>(
    `select ${withSource ? columns : columnsOfList} from plugins p where p.organization_id = $1 and p.id = any ($2::int[])`,
    [organizationId, ids],
  );
}

const ofOrganization = `select p.*, ${jsonBytes('p.source')} + octet_length(p.config_schema::text) as size
      from plugins p where p.organization_id = $1 order by p.id limit $2 offset $3`;

export const listOwnPlugins = inPages(
  queryNumber<[organizationId: string]>('select count(*) from plugins where organization_id = $1'),
  queryRows<InstalledPlugin, [organizationId: string, limit: number, offset: number]>(
    `select ${columns} from ${upToPageBytes(ofOrganization, 'page.id')} p order by p.id`,
  ),
);

export const insertPlugin = queryOne<
  InstalledPlugin,
  [organizationId: string, plugin: PluginSettings]
>(
  `insert into plugins as p (name, description, url, config_schema, source, organization_id)
     values ($1, $2, $3, $4, $5, $6) returning ${columns}`,
  (organizationId, plugin) => [...valuesOf(plugin), organizationId],
);

export const updatePlugin = queryOne<InstalledPlugin, [id: number, plugin: PluginSettings]>(
  `update plugins p set name = $1, description = $2, url = $3, config_schema = $4, source = $5, updated_at = now()
      where p.id = $6 returning ${columns}`,
  (id, plugin) => [...valuesOf(plugin), id],
);
