import { eventsModel } from '../domain/events-model.ts';
import type { Model } from '../domain/model.ts';
import { parseQuery, schemaOf } from '../query/parse-query.ts';
import type { ExportRules } from '../use-cases/export-rules.ts';

/** Every model that can be exported. */
export const models: readonly Model[] = [eventsModel];

/** Joins the query room to the API: each refusal names the construct and its position. */
export const checkQuery: ExportRules['checkQuery'] = (dslQuery, modelName) => {
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
