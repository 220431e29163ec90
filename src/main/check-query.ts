import type { Model } from '../domain/model.ts';
import { parseQuery, schemaOf } from '../query/parse-query.ts';
import type { ExportRules } from '../use-cases/exports/rules.ts';

/** Joins the query room to the API: each refusal names the construct and its position. */
export function checkQueryOf(models: readonly Model[]): ExportRules['checkQuery'] {
  return (dslQuery, modelName) => {
    const model = models.find(({ name }) => name === modelName);
    if (!model) throw new Error(`there is no model ${modelName}`);
    const parsed = parseQuery(dslQuery, model);
    if ('ok' in parsed) return { ok: true, schema: schemaOf(parsed.ok, model) };
    return {
      ok: false,
      problems: parsed.problems.map(({ construct, position, message }) => ({
        code: 'invalid_input',
        detail: `${construct} at position ${position}: ${message}`,
        attr: 'dsl_query',
      })),
    };
  };
}
