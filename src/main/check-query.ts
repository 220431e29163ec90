import type { Model } from '../domain/model.ts';
import { parseQuery, schemaOf } from '../query/parse-query.ts';
import type { ExportRules } from '../use-cases/exports/rules.ts';

/** Connects the query room to the API: each refusal names the construct and its position. */
export function checkQueryOf(models: readonly Model[]): ExportRules['checkQuery'] {
  return (dslQuery, modelName) => {
    const model = models.find(({ name }) => name === modelName);
    if (!model) throw new Error(`there is no model ${modelName}`);
    const parsed = parseQuery(dslQuery, model);
    return 'ok' in parsed
      ? { ok: true, schema: schemaOf(parsed.ok, model) }
      : { ok: false, problems: parsed.problems };
  };
}
