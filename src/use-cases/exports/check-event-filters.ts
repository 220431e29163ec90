import type { Problem } from '../outcome.ts';
import type { Config } from './destination.ts';
import type { ExportRules } from './rules.ts';

/** Event filters on a model without events: the query could only fail at run time. */
export function checkEventFilters(
  rules: ExportRules,
  modelName: string,
  config: Config,
): readonly Problem[] {
  const model = rules.models.find(({ name }) => name === modelName);
  if (!model || model.eventColumn !== null) return [];
  return ['include_events', 'exclude_events']
    .filter((filter) => Array.isArray(config[filter]) && config[filter].length > 0)
    .map((filter) => ({
      code: 'invalid_input',
      detail: `The model ${modelName} has no events to include or exclude.`,
      attr: `destination__config__${filter}`,
    }));
}
