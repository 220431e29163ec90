import { hideValues } from '../../../foundation/domain/hide-values.ts';
import type { Api } from '../api.ts';

/** Fields with the words of a source, a store or a plugin. */
const texts: ReadonlySet<string> = new Set([
  'detail',
  'error',
  'health_reason',
  'latest_error',
  'message',
  'passed_over',
  'paused_reason',
  'stopped_reason',
  'why',
]);

/** Fields of a change with such words, or with the key of a file: a partition has values of rows. */
const hasValues: ReadonlySet<unknown> = new Set(['paused_reason', 'file']);

/** An operator's key sees how exports are, but no value of a row and no part of a secret. */
export function hideFromOperators(api: Api): void {
  api.addHook('preSerialization', async (request, reply, answer) =>
    request.caller?.organizationId === null && reply.statusCode < 400 ? hide(answer) : answer,
  );
}

function hide(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(hide);
  if (typeof value !== 'object' || value === null) return value;
  const { field } = value as { readonly field?: unknown };
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const isText = texts.has(name) || (hasValues.has(field) && name !== 'field');
      if (typeof inner === 'string' && isText) return [name, hideValues(inner)];
      // The end of a secret; the object that a run has sent last.
      const isHidden = name === 'ends_with' || (name === 'cursor' && 'records_completed' in value);
      return [name, isHidden ? null : hide(inner)];
    }),
  );
}
