import { type DestinationConfig, readFileSettings } from '../../domain/file-settings.ts';
import type { Model } from '../../domain/model.ts';
import type { Problem } from '../../domain/problem.ts';

export interface CheckedConfig {
  /** Every fault; attributes begin with `destination__config`. */
  readonly problems: readonly Problem[];
  /** The config with the defaults of what was not said. */
  readonly config: DestinationConfig;
}

/** What connectors and query say of an export's parts. The composition root joins the two. */
export interface ExportRules {
  /** Every model that can be exported. */
  readonly models: readonly Model[];
  readonly destinationTypes: readonly string[];
  /** Checks a whole config, its secrets included. `type` is one of `destinationTypes`. */
  checkDestination(type: string, config: DestinationConfig): CheckedConfig;
  /** Names where the files of a checked config go; another name is another place. */
  placeOf(type: string, config: DestinationConfig): string;
  /** Properties of the config that are sealed at rest and never answered. */
  secretProperties(type: string): readonly string[];
  /** The described form of a query, or what is wrong with it. */
  checkQuery(
    dslQuery: string,
    model: string,
  ):
    | { readonly ok: true; readonly schema: unknown }
    | { readonly ok: false; readonly problems: readonly Problem[] };
}

/** Event filters on a model without events: the query could only fail at run time. */
export function checkEventFilters(
  rules: ExportRules,
  modelName: string,
  config: DestinationConfig,
): readonly Problem[] {
  const model = rules.models.find(({ name }) => name === modelName);
  if (!model || model.eventColumn !== null) return [];
  const { includeEvents, excludeEvents } = readFileSettings(config);
  return [
    ...(includeEvents ? ['include_events'] : []),
    ...(excludeEvents ? ['exclude_events'] : []),
  ].map((filter) => ({
    code: 'invalid_input',
    detail: `The model ${modelName} has no events to include or exclude.`,
    attr: `destination__config__${filter}`,
  }));
}
