import type { Config } from '../foundation/config/config.ts';
import { readModelsFile, type SourcedModel } from '../foundation/config/models-file.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { eventsModel } from '../foundation/domain/events-model.ts';
import { checkModelExpression } from '../rows/query/selection.ts';
import {
  createPostgresSource,
  ensureSourceRole as ensureRole,
  findGrants,
  planModels,
  type PostgresSourceOptions,
  type SourceRole,
} from '../rows/sources/index.ts';
import type { Source } from '../rows/sources/source.ts';
import { maxRowMib } from './row-limit.ts';
import { type TriggerStatement, triggerStatements } from '../rows/changes/trigger-sql.ts';
import { findEmbeddedSource } from '../state/embedded-postgres/start.ts';

/** Those of MODELS_FILE, and `events` unless the file has it. @param keepsFaultyAddresses with their faults @throws ConfigError */
export function loadModels(
  { MODELS_FILE }: Config,
  keepsFaultyAddresses = false,
): readonly SourcedModel[] {
  const listed =
    MODELS_FILE === null
      ? []
      : readModelsFile(MODELS_FILE, {
          checkExpression: checkModelExpression,
          keepsFaultyAddresses,
        });
  const hasEvents = listed.some(({ model }) => model.name === eventsModel.name);
  return hasEvents
    ? listed
    : [{ model: eventsModel, sourceUrl: null, primaryUrl: null }, ...listed];
}

/** The wait of runs and proofs for a connection, if the source has as many as it may. */
const usualRoomMs = 20_000;

/** Finds the source of a model; throws SluiceError `source.unknown_model`. */
export type SourceOf = (model: string) => Source;

/**
 * One source per database, however many models it has.
 *
 * @param sourceUrl for models without their own database
 * @param limits other times and sizes than those of a run
 * @param onSettleLook called for each look at a database with its first model, which stands for it
 */
export function joinSources(
  config: Config,
  models: readonly SourcedModel[],
  sourceUrl: string,
  limits: Partial<PostgresSourceOptions> = {},
  onSettleLook: (model: string) => void = () => {},
): SourceOf {
  const placeOf = (model: SourcedModel) =>
    JSON.stringify([model.sourceUrl ?? sourceUrl, primaryUrlOf(config, model)]);
  const places = new Map(models.map((model) => [model.model.name, placeOf(model)]));
  const sources = new Map<string, Source>();
  for (const first of models) {
    const place = placeOf(first);
    if (sources.has(place)) continue;
    const inside = models.filter((model) => placeOf(model) === place).map(({ model }) => model);
    const source = createPostgresSource({
      connectionString: first.sourceUrl ?? sourceUrl,
      primaryUrl: primaryUrlOf(config, first),
      ...addressNamesOf(first),
      allowUnsettledStandby: config.ALLOW_UNSETTLED_STANDBY,
      plan: planModels(inside),
      settleTimeoutMs: config.SETTLE_TIMEOUT_SECONDS * 1_000,
      maxRowBytes: maxRowMib(config) * 2 ** 20,
      onSettleLook: () => onSettleLook(first.model.name),
      roomMs: usualRoomMs,
      ...limits,
    });
    sources.set(place, source);
  }
  return (model) => {
    const source = sources.get(places.get(model) ?? '');
    if (!source) throw new SluiceError('source.unknown_model', model);
    return source;
  };
}

/** A source that takes longer counts as one that has the table. */
const patienceMs = 5_000;

/** Without a table in its source, `events` is not offered beside declared models. A source that does not answer counts as one that has it. */
export async function findOfferedModels(
  config: Config,
  models: readonly SourcedModel[],
  sourceUrl: string,
): Promise<readonly SourcedModel[]> {
  const builtIn = models.filter(({ model }) => model === eventsModel);
  if (config.MODELS_FILE === null || builtIn.length === 0) return models;
  const times = { connectTimeoutMs: patienceMs, idleTimeoutMs: 1_000 };
  const source = joinSources(config, builtIn, sourceUrl, times)(eventsModel.name);
  const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
  const request = { model: eventsModel.name, tenantKey: '1', interval: { start: 0, end: 1 } };
  try {
    await source.describe({ ...request, ...all }, AbortSignal.timeout(patienceMs));
  } catch (error) {
    const isMissing = error instanceof SluiceError && error.code === 'source.relation_missing';
    if (isMissing) return models.filter(({ model }) => model !== eventsModel);
  }
  return models;
}

/** Not if the models all have a database of their own: then nothing reads `events` in ours. */
export function needsEventsTable(config: Config): boolean {
  if (config.MODELS_FILE === null || config.SOURCE_DATABASE_URL !== null) return true;
  const declared = loadModels(config, true).filter(({ model }) => model !== eventsModel);
  return declared.some(({ sourceName }) => sourceName === undefined);
}

export function addressNamesOf({ sourceName, primaryName }: SourcedModel) {
  return {
    addressName: sourceName ?? 'SOURCE_DATABASE_URL',
    primaryName: primaryName ?? 'SOURCE_PRIMARY_URL',
  };
}

/** The primary of a model's database, if the database is a standby; null if it is not known. */
export function primaryUrlOf(
  { SOURCE_PRIMARY_URL }: Config,
  { sourceUrl, primaryUrl }: SourcedModel,
): string | null {
  return primaryUrl ?? (sourceUrl === null ? SOURCE_PRIMARY_URL : null);
}

/** A sentence if there is no such model, or it has no version_column. */
export function listTriggers(config: Config, name: string): readonly TriggerStatement[] | string {
  const models = loadModels(config, true).map(({ model }) => model);
  const model = models.find((one) => one.name === name);
  if (!model) {
    const names = models.map((one) => one.name).join(', ');
    return `There is no model ${name}. The models are ${names}.`;
  }
  const statements = triggerStatements(model);
  if (statements.length > 0) return statements;
  return `The model ${name} has no version_column. Set it in MODELS_FILE to the name of the column that the trigger shall set.`;
}
export type { TriggerStatement };

export interface AddressGrants {
  readonly address: string;
  readonly role: string;
  /** In which database the statements are run, and as whom. */
  readonly about: string;
  /** Without their semicolons. */
  readonly statements: readonly string[];
}

/** @param findSource finds the address for models without their own @param onlyColumns grants no others */
export async function listGrants(
  config: Config,
  findSource: () => Promise<string>,
  onlyColumns: boolean,
): Promise<readonly AddressGrants[]> {
  const declared = loadModels(config);
  const needsShared = declared.some(({ sourceUrl }) => sourceUrl === null);
  const shared = needsShared ? await findSource() : '';
  const models = needsShared ? await findOfferedModels(config, declared, shared) : declared;
  const grants: AddressGrants[] = [];
  const urls = new Map<string, SourcedModel[]>();
  const primaries = new Map<string, string>();
  for (const one of models) {
    const url = one.sourceUrl ?? shared;
    urls.set(url, [...(urls.get(url) ?? []), one]);
    const primary = primaryUrlOf(config, one);
    if (primary !== null) primaries.set(primary, addressNamesOf(one).primaryName);
  }
  const add = async (url: string, address: string, own: readonly SourcedModel[]) => {
    const ownModels = own.map(({ model }) => model);
    const isPaired = primaries.size > 0;
    const { role, isReached, statements } = await findGrants(url, ownModels, {
      onlyColumns,
      isPaired,
    });
    const unseen = isReached
      ? ''
      : ' The role cannot log in yet, so run `sluice models check` afterwards.';
    const { host, database } = nameOfPlace(url);
    const about = `role ${role}, to run in the database ${database} at ${host} as a superuser or the owner of the relations.${unseen}`;
    grants.push({ address, role, about, statements });
  };
  for (const [url, own] of urls) {
    const [first] = own;
    if (first) await add(url, addressNamesOf(first).addressName, own);
  }
  for (const [url, name] of primaries) {
    if (!urls.has(url)) await add(url, name, []);
  }
  return grants;
}

/** For people; never with the password. */
function nameOfPlace(url: string): { readonly host: string; readonly database: string } {
  if (!URL.canParse(url)) return { host: 'its server', database: 'of the address' };
  const { hostname, port, pathname } = new URL(url);
  const database = decodeURIComponent(pathname.slice(1));
  return { host: `${hostname || 'its socket'}${port === '' ? '' : `:${port}`}`, database };
}

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

/** For models without a database of their own: on the embedded server that of the role for exports. @param url of our tables */
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
