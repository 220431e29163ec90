import { type DestinationConfig, readFileSettings } from '../../domain/file-settings.ts';
import type { Problem } from '../outcome.ts';
import type { ExportRules } from './rules.ts';

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
