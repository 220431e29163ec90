import type { Draft } from './form/draft.ts';
import type { ApiDescription } from './form/openapi.ts';
import { isRecord, parseJson } from './json.ts';

const prefix = 'sluice-draft:';

/** Where the draft of a form is kept: only for the same organization, project and export. */
export function draftItem(organization: string, project: string, exportId: string | null): string {
  return [prefix, organization, project, exportId ?? 'new'].join('/');
}

/** Deletes the drafts of all forms from a `Storage`. */
export function forgetDrafts(storage: { removeItem(item: string): void }): void {
  for (const item of Object.keys(storage)) if (item.startsWith(prefix)) storage.removeItem(item);
}

/** An address with a password in it. */
const hasCredentials = (value: unknown): boolean => /\/\/[^/@\s]+@/.test(String(value));

/**
 * A draft as text, without secrets: neither those of its own destination nor values that were typed for another
 * type before.
 *
 * @param base identifies the state of the export that the draft changes
 */
export function textOfDraft(description: ApiDescription, draft: Draft, base: string): string {
  const secret = new Set(
    description.destinations.flatMap(({ fields }) =>
      fields.filter(({ kind }) => kind === 'secret').map(({ name }) => name),
    ),
  );
  const values = Object.entries(draft.values).filter(
    ([name, value]) => !secret.has(name) && !hasCredentials(value),
  );
  const storedDraft = { ...draft, values: Object.fromEntries(values), cleared: [...draft.cleared] };
  return JSON.stringify({ base, draft: storedDraft });
}

export interface KeptDraft {
  readonly draft: Draft;
  readonly base: string;
}

/** Reads `textOfDraft`. Values that the form does not know are left out; null if it is no draft of this form. */
export function readDraft(
  description: ApiDescription,
  text: string | null,
  fresh: Draft,
): KeptDraft | null {
  const { base, draft } = asObject(parseJson(text ?? ''));
  const stored = asObject(draft);
  const isKnown = description.destinations.some(({ type }) => type === stored.type);
  if (typeof base !== 'string' || !isKnown) return null;
  const cleared = Array.isArray(stored.cleared) ? stored.cleared.map(String) : [];
  return {
    base,
    draft: {
      ...sameShape(fresh, stored),
      values: { ...fresh.values, ...strings(asObject(stored.values)) },
      cleared: new Set(cleared),
    },
  };
}

/** `fresh`, with what `stored` has of the same name and type. */
function sameShape(fresh: Draft, stored: Readonly<Record<string, unknown>>): Draft {
  const recent = Object.entries(fresh).filter(
    ([name, value]) => typeof value !== 'object' && typeof stored[name] === typeof value,
  );
  return { ...fresh, ...Object.fromEntries(recent.map(([name]) => [name, stored[name]])) };
}

function strings(values: Readonly<Record<string, unknown>>): Record<string, string | boolean> {
  return Object.fromEntries(
    Object.entries(values).filter(
      (entry): entry is [string, string | boolean] =>
        typeof entry[1] === 'string' || typeof entry[1] === 'boolean',
    ),
  );
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}
