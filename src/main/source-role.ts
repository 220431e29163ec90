import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { eventsModel } from '../foundation/domain/events-model.ts';
import { ensureSourceRole as ensureRole, type SourceRole } from '../rows/sources/index.ts';
import { loadModels } from './models.ts';

/** Slots of several workers, and previews. More connections are refused and tried again. */
const maxConnections = 100;

/** Creates or corrects the role that exports read with, for the models without a database of their own. */
export async function ensureSourceRole(
  url: string,
  role: Pick<SourceRole, 'name' | 'password'>,
  models: readonly SourcedModel[],
): Promise<void> {
  const here = models.filter(({ sourceUrl }) => sourceUrl === null).map(({ model }) => model);
  const events = here.find((model) => model === eventsModel) ?? null;
  await ensureRole(url, { ...role, maxConnections }, here, events);
}

/** Whether the rows to export are in the database of our own tables. */
export function isSourceToo(
  { SOURCE_DATABASE_URL: source, DATABASE_DIRECT_URL: direct }: Config,
  url: string,
): boolean {
  if (source === null || source === url) return true;
  return [url, ...(direct === null ? [] : [direct])].map(placeOf).includes(placeOf(source));
}

/**
 * The address of the rows for a role that may write them: the role of exports may not.
 *
 * @param url of our own tables
 */
export function writableSourceUrl(config: Config, url: string): string {
  return isSourceToo(config, url) ? url : (config.SOURCE_DATABASE_URL ?? url);
}

/** The address without user and password; one that only the driver understands stays whole. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) return url;
  const { hostname, port, pathname } = new URL(url);
  return `${hostname}:${port || 5432}${pathname}`;
}

/**
 * For `sluice migrate --source-role`: the role that SOURCE_DATABASE_URL names.
 *
 * @param url of a superuser
 * @returns its name; null if SOURCE_DATABASE_URL leads to another database, whose roles are not ours
 */
export async function ensureConfiguredRole(config: Config, url: string): Promise<string | null> {
  const { SOURCE_DATABASE_URL: source } = config;
  if (source === null || !isSourceToo(config, url) || !URL.canParse(source)) return null;
  const name = decodeURIComponent(new URL(source).username);
  if (name === decodeURIComponent(new URL(url).username)) return null;
  const password = decodeURIComponent(new URL(source).password);
  await ensureSourceRole(url, { name, password }, loadModels(config));
  return name;
}
