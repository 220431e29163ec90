import { isDeepStrictEqual } from 'node:util';
import type { BatchExport } from '../../../foundation/domain/batch-export.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import { batchExportOf, type Request } from '../api.ts';

/**
 * For an operation that starts runs, and whose body may repeat the export: refuses one that asks for other rows, or for
 * another destination, than the export has. Ignoring it would send more than was asked.
 *
 * @throws Refusal (400)
 */
export function refuseOtherRows(request: Request): void {
  const batchExport = batchExportOf(request);
  const { hogql_query: other, ...fields } = request.repeated;
  const named = Object.entries({ ...fields, ...(other === undefined ? {} : { dsl_query: other }) });
  const problems = named.filter(([name, value]) => !isSame(batchExport, name, value));
  if (problems.length === 0) return;
  throw new Refusal(
    ...problems.map(([attr]): Problem => {
      const detail =
        'The export has another value, and this operation does not change it. Update the export first, or leave the field out.';
      return { code: 'invalid_input', detail, attr };
    }),
  );
}

function isSame(batchExport: BatchExport, name: string, value: unknown): boolean {
  const { dslQuery, querySchema, filters, model, transformations, destination } = batchExport;
  switch (name) {
    case 'dsl_query': {
      const { dsl_query: normalised } = (querySchema ?? {}) as { readonly dsl_query?: string };
      return value === dslQuery || (value !== null && value === normalised);
    }
    case 'filters':
      return isDeepStrictEqual(isEmpty(value) ? null : value, filters);
    case 'model':
      return value === model;
    case 'transformations':
      return value === transformations;
    case 'destination':
      return repeats(value, destination);
    default:
      return true;
  }
}

const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

/** A secret that is sent again is not stored in the config, and does not count. */
function repeats(value: unknown, { type, config }: BatchExport['destination']): boolean {
  const given = (value ?? {}) as { readonly type?: unknown; readonly config?: object };
  if (given.type !== undefined && given.type !== type) return false;
  return Object.entries(given.config ?? {}).every(
    ([name, setting]) => !(name in config) || isDeepStrictEqual(setting, config[name]),
  );
}
