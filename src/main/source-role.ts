import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { eventsModel } from '../foundation/domain/events-model.ts';
import { ensureSourceRole as ensureRole, type SourceRole } from '../rows/sources/index.ts';
import { findEmbeddedSource } from '../state/embedded-postgres/start.ts';
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

/**
 * For models without a database of their own: on the embedded server that of the role for exports. @param url of
 * our tables
 */
export async function findSourceUrl(
  { SOURCE_DATABASE_URL, DATABASE_DIRECT_URL, DATABASE_URL, SLUICE_DATA_DIR }: Config,
  url: string,
): Promise<string> {
  const set = SOURCE_DATABASE_URL ?? DATABASE_DIRECT_URL ?? DATABASE_URL;
  return set ?? (await findEmbeddedSource(SLUICE_DATA_DIR)) ?? url;
}

/** Says whether the rows to export are in the database of our own tables. */
export function isSourceToo(
  { SOURCE_DATABASE_URL: source, DATABASE_DIRECT_URL: direct }: Config,
  url: string,
): boolean {
  if (source === null || source === url) return true;
  return [url, ...(direct === null ? [] : [direct])].map(placeOf).includes(placeOf(source));
}

/** The address of the rows for a role that may write them. @param url of our own tables */
export function writableSourceUrl(config: Config, url: string): string {
  return isSourceToo(config, url) ? url : (config.SOURCE_DATABASE_URL ?? url);
}

/** The address without user and password; one that only the driver understands stays whole. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) return url;
  const { hostname, port, pathname } = new URL(url);
  return `${hostname}:${port || 5432}${pathname}`;
}

/** The role that was made, or why none was and what to do instead. */
type ConfiguredRole = { readonly role: string } | { readonly instead: string };

const otherServer =
  'SOURCE_DATABASE_URL leads to another database, where DATABASE_URL is no superuser, so no role was made. Run what `sluice models grants` prints on that server, as its superuser. Then run `sluice models check`.';

/** For `sluice migrate --source-role`. @param url of a superuser */
export async function ensureConfiguredRole(config: Config, url: string): Promise<ConfiguredRole> {
  const { SOURCE_DATABASE_URL: source } = config;
  if (source === null) {
    return {
      instead:
        'SOURCE_DATABASE_URL is not set, so no role was made. Set it to the address of this database with the role to make and its password.',
    };
  }
  if (!isSourceToo(config, url) || !URL.canParse(source)) return { instead: otherServer };
  const name = decodeURIComponent(new URL(source).username);
  if (name === decodeURIComponent(new URL(url).username)) {
    return {
      instead: `SOURCE_DATABASE_URL and DATABASE_URL name the same role ${name}, so no role was made. Name another one in SOURCE_DATABASE_URL.`,
    };
  }
  const password = decodeURIComponent(new URL(source).password);
  await ensureSourceRole(url, { name, password }, loadModels(config));
  return { role: name };
}
