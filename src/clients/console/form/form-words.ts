import { ApiFailure } from '../api.ts';
import { configAttr, destinationForm } from './draft.ts';
import { type Field, isFirst } from './fields.ts';
import type { ApiDescription } from './openapi.ts';
import type { PartProps } from './part-props.ts';

/** The labels of the form's own fields, by the API's names. */
const labels = {
  name: 'Name',
  model: 'Model',
  destination__type: 'Type',
  interval: 'Interval',
  offset_day: 'Week begins on',
  offset_hour: 'Day begins at',
  timezone: 'Time zone',
  transformations: 'Apply transformations',
  dsl_query: 'Query',
  start_at: 'Start',
  end_at: 'End',
};

/** Name, label and error of a field of the form. */
export function fieldProps(attr: keyof typeof labels, errors: PartProps['errors']) {
  return { attr, label: labels[attr], error: errors.get(attr) };
}

/** The fields of the form for a type of destination: the API's names with their labels, in the order of the form. */
export function labelsOf(description: ApiDescription, type: string): ReadonlyMap<string, string> {
  const fields = destinationForm(description, type)?.fields ?? [];
  const entries = (of: readonly Field[]) =>
    of.map(({ name, label }): [string, string] => [configAttr(name), label]);
  const own = Object.entries(labels);
  const [identity, when, more] = [own.slice(0, 3), own.slice(3, 8), own.slice(8)];
  return new Map([
    ...identity,
    ...entries(fields.filter(isFirst)),
    ...when,
    ...more.slice(0, 1),
    ...entries(fields.filter((field) => !isFirst(field))),
    ...more.slice(1),
    ...description.settings.map(({ name, label }): [string, string] => [name, label]),
    ['backfill', 'Backfill from the start'],
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

export function inWords(
  { status, problems, requestId }: ApiFailure,
  known: ReadonlyMap<string, string>,
): ApiFailure {
  const worded = problems.map((one) => ({ ...one, detail: inFormWords(one.detail, known) }));
  return new ApiFailure(status, worded, requestId);
}
