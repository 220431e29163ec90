import { configAttr, destinationForm, type Draft, type ExportInput } from './draft.ts';
import type { ApiDescription } from './openapi.ts';

/**
 * Faults that the page finds by itself, by the API's names. The API finds all others, and is asked in any case:
 * so all problems are shown at once. A body with one of these problems is always refused.
 *
 * @param incomplete fields that hold something which is no value, such as half of a date
 * @param hasChain whether the project has enabled steps: a person decides whether the export applies them
 */
export function checkDraft(
  description: ApiDescription,
  draft: Draft,
  incomplete: readonly string[],
  hasChain = false,
): ReadonlyMap<string, string> {
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  const empty = fields.filter(
    ({ name, required, kind }) => required && kind !== 'flag' && isBlank(draft.values[name]),
  );
  return new Map([
    ...(isBlank(draft.name) ? [['name', 'Enter a name.'] as const] : []),
    ...empty.map(({ name }) => [configAttr(name), 'Enter a value.'] as const),
    ...(hasChain && draft.transformations === ''
      ? [['transformations', 'Choose whether the steps apply.'] as const]
      : []),
    ...incomplete.map((attr) => [attr, 'Complete the value, or clear the field.'] as const),
  ]);
}

const isBlank = (value: string | boolean | undefined) => String(value ?? '').trim() === '';

/** The browser says "" of such a field. The API must not take that for an empty one. */
export function withIncomplete(body: ExportInput, incomplete: readonly string[]): ExportInput {
  const config = { ...body.destination.config };
  const changed: Record<string, unknown> = { ...body };
  for (const attr of incomplete) {
    const [, name] = /^destination__config__(.+)$/.exec(attr) ?? [];
    if (name === undefined) changed[attr] = 'incomplete';
    else config[name] = 'incomplete';
  }
  return { ...body, ...changed, destination: { ...body.destination, config } };
}
