import type { Sql } from '../../../state/store/database/database.ts';
import type { OffsetPage, PageRequest } from '../../../state/store/database/lists.ts';
import {
  findOwnPlugins,
  type InstalledPlugin,
  listOwnPlugins,
} from '../../../state/store/transformations/plugins.ts';
import { transforms } from '../../../rows/transforms/index.ts';
import { ownSchema } from '../../../rows/transforms/own-steps.ts';

const builtIns: readonly InstalledPlugin[] = transforms.map((transform) => {
  const { id, organizationId, name, description, url, configSchema, jobs } = transform;
  const facts = { id, organizationId, name, description, url, configSchema, jobs };
  return { ...facts, source: null, createdAt: null, updatedAt: null };
});

/**
 * The plugins of those ids that an organization may use: built in, or its own.
 *
 * @param withSource whether own plugins have their source, else null
 */
export async function findPlugins(
  sql: Sql,
  organizationId: string,
  ids: readonly number[],
  withSource = true,
): Promise<Map<number, InstalledPlugin>> {
  const byId = new Map(builtIns.filter(({ id }) => ids.includes(id)).map((p) => [p.id, p]));
  const others = ids.filter((id) => !byId.has(id));
  if (others.length === 0) return byId;
  for (const own of await findOwnPlugins(sql, organizationId, others, withSource)) {
    byId.set(own.id, withStepFields(own));
  }
  return byId;
}

/** An own plugin with the settings that every step has. */
export function withStepFields(own: InstalledPlugin): InstalledPlugin {
  return { ...own, configSchema: ownSchema(own.configSchema) };
}

/** Built-in ones first, then the organization's own, oldest first. */
export async function listPlugins(
  sql: Sql,
  organizationId: string,
  { limit, offset }: PageRequest,
): Promise<OffsetPage<InstalledPlugin>> {
  const first = builtIns.slice(offset, offset + limit);
  const own = await listOwnPlugins(sql, organizationId, {
    limit: limit - first.length,
    offset: Math.max(0, offset - builtIns.length),
  });
  return {
    count: builtIns.length + own.count,
    results: [...first, ...own.results.map(withStepFields)],
  };
}
