import type { Config } from '../config/config.ts';
import { readModelsFile, type SourcedModel } from '../config/models-file.ts';
import { SluiceError } from '../domain/errors.ts';
import { eventsModel } from '../domain/events-model.ts';
import { checkModelExpression } from '../query/wall.ts';
import { createPostgresSource, type PostgresSourceOptions, planModels } from '../sources/index.ts';
import type { Source } from '../sources/source.ts';

/**
 * Every model of this installation: those of MODELS_FILE, and `events` first unless the file has one
 * of that name.
 *
 * @throws ConfigError with every fault of the file
 */
export function loadModels({ MODELS_FILE }: Config): readonly SourcedModel[] {
  const listed =
    MODELS_FILE === null
      ? []
      : readModelsFile(MODELS_FILE, { checkExpression: checkModelExpression });
  const hasEvents = listed.some(({ model }) => model.name === eventsModel.name);
  return hasEvents ? listed : [{ model: eventsModel, sourceUrl: null }, ...listed];
}

/** Finds the source of a model; throws SluiceError `source.unknown_model`. */
export type SourceOf = (model: string) => Source;

/**
 * One source a database, whichever models it holds.
 *
 * @param sourceUrl of the models that name no database
 * @param limits other times and sizes than those of a run
 */
export function joinSources(
  config: Config,
  models: readonly SourcedModel[],
  sourceUrl: string,
  limits: Partial<PostgresSourceOptions> = {},
): SourceOf {
  const urls = new Map(models.map(({ model, sourceUrl: own }) => [model.name, own ?? sourceUrl]));
  const sources = new Map<string, Source>();
  for (const url of new Set(urls.values())) {
    const inside = models.map(({ model }) => model).filter(({ name }) => urls.get(name) === url);
    const source = createPostgresSource({
      connectionString: url,
      plan: planModels(inside),
      settleTimeoutMs: config.SETTLE_TIMEOUT_SECONDS * 1_000,
      ...limits,
    });
    sources.set(url, source);
  }
  return (model) => {
    const source = sources.get(urls.get(model) ?? '');
    if (!source) throw new SluiceError('source.unknown_model', model);
    return source;
  };
}
