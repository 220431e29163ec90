import type { Config } from '../foundation/config/config.ts';
import { readModelsFile, type SourcedModel } from '../foundation/config/models-file.ts';
import { SluiceError } from '../foundation/domain/errors.ts';
import { eventsModel } from '../foundation/domain/events-model.ts';
import { checkModelExpression } from '../rows/query/wall.ts';
import {
  createPostgresSource,
  type PostgresSourceOptions,
  planModels,
} from '../rows/sources/index.ts';
import type { Source } from '../rows/sources/source.ts';
import { maxRowMib } from './row-limit.ts';

/**
 * Those of MODELS_FILE, and `events` unless the file has it. @param keepsFaultyAddresses with their faults @throws
 * ConfigError
 */
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

/**
 * The models that this installation offers. If it declares models, the built-in `events` is one of them only if its source has
 * the table. A source that does not answer counts as one that has it: the checks of an export say then what is wrong.
 *
 * @param sourceUrl for models without their own database
 */
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
