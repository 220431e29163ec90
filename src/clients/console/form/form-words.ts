import type { ApiFailure } from '../api.ts';
import { configAttr, destinationForm, type PartProps } from './draft.ts';
import { fieldsIn, type Field, isFirst } from './fields.ts';
import type { ApiDescription } from './openapi.ts';

/** The form's own fields by the API's names: their labels, and their names in the draft. */
const ownFields = {
  name: ['Name', 'name'],
  model: ['Model', 'model'],
  destination__type: ['Type', 'type'],
  interval: ['Interval', 'interval'],
  offset_day: ['Week begins on', 'offsetDay'],
  offset_hour: ['Day begins at', 'offsetHour'],
  timezone: ['Time zone', 'timezone'],
  transformations: ['Apply transformations', 'transformations'],
  dsl_query: ['Query', 'dslQuery'],
  start_at: ['Start', 'startAt'],
  end_at: ['End', 'endAt'],
} as const;

export function fieldProps(
  attr: keyof typeof ownFields,
  { draft, onChange, errors }: Pick<PartProps, 'draft' | 'onChange' | 'errors'>,
) {
  const [label, name] = ownFields[attr];
  return fieldsIn(draft, onChange, errors)(name, label, attr);
}

/** The fields of the form for a type of destination: the API's names with their labels, in the order of the form. */
export function labelsOf(description: ApiDescription, type: string): ReadonlyMap<string, string> {
  const fields = destinationForm(description, type)?.fields ?? [];
  const entries = (of: readonly Field[]) =>
    of.map(({ name, label }): [string, string] => [configAttr(name), label]);
  const own = Object.entries(ownFields).map(([attr, [label]]): [string, string] => [attr, label]);
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

/** Labels in place of the API's names. Names of a single word stay: they are ordinary words too. */
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

export const inWords = (failure: ApiFailure, known: ReadonlyMap<string, string>): ApiFailure =>
  failure.with(failure.problems.map((one) => ({ ...one, detail: inFormWords(one.detail, known) })));
