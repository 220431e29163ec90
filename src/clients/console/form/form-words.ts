import type { Problem } from '../api-types.ts';
import { configAttr, destinationForm } from './draft.ts';
import type { ApiDescription } from './openapi.ts';

/** The labels of the form's own fields, by the API's names, in the order of the form. */
const beforeConfig = {
  name: 'Name',
  model: 'Model',
  transformations: 'Apply transformations',
  dsl_query: 'Query',
  destination__type: 'Type',
};
const afterConfig = {
  interval: 'Interval',
  offset_day: 'Week begins on',
  offset_hour: 'Day begins at',
  timezone: 'Time zone',
  start_at: 'Start',
  end_at: 'End',
};
const last = { backfill: 'Backfill from the start' };

export const labels = { ...beforeConfig, ...afterConfig };

/** The fields of the form for a type of destination: the API's names with their labels, in order. */
export function labelsOf(description: ApiDescription, type: string): ReadonlyMap<string, string> {
  const fields = destinationForm(description, type)?.fields ?? [];
  return new Map([
    ...Object.entries(beforeConfig),
    ...fields.map(({ name, label }): [string, string] => [configAttr(name), label]),
    ...Object.entries(afterConfig),
    ...description.settings.map(({ name, label }): [string, string] => [name, label]),
    ...Object.entries(last),
  ]);
}

/**
 * A problem in the words of the form: a reader of the form does not know the API's names. Names of a single
 * word stay, since they are ordinary words too.
 */
export function inFormWords(text: string, known: ReadonlyMap<string, string>): string {
  const byName = new Map(
    [...known].map(([attr, label]) => [attr.replace('destination__config__', ''), label]),
  );
  const worded = text.replaceAll(/\b[a-z]+(?:_[a-z]+)+\b/g, (name) => {
    const label = byName.get(name);
    return label === undefined ? name : `“${label}”`;
  });
  return worded === 'This field is required.' ? 'Enter a value.' : worded;
}

export function problemsInWords(
  problems: readonly Problem[],
  known: ReadonlyMap<string, string>,
): readonly Problem[] {
  return problems.map((problem) => ({ ...problem, detail: inFormWords(problem.detail, known) }));
}
