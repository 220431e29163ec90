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
 * Every model of this installation: those of MODELS_FILE, and first `events`, unless the file has a model
 * with that name.
 *
 * @param keepsFaultyAddresses whether a model with an address that is not valid is kept, with its fault
 * @throws ConfigError with every fault of the file
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
      place: first.model.name,
      connectionString: first.sourceUrl ?? sourceUrl,
      primaryUrl: primaryUrlOf(config, first),
      ...addressNamesOf(first),
      allowUnsettledStandby: config.ALLOW_UNSETTLED_STANDBY,
      plan: planModels(inside),
      lockWaitMs: config.SOURCE_LOCK_WAIT_SECONDS * 1_000,
      snapshotMs: config.MAX_SNAPSHOT_HOURS * 3_600_000,
      settleTimeoutMs: config.SETTLE_TIMEOUT_SECONDS * 1_000,
      maxRowBytes: maxRowMib(config) * 2 ** 20,
      onSettleLook: () => onSettleLook(first.model.name),
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

/** The settings that the addresses of a model are from. */
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
