import type { Model } from '../foundation/domain/model.ts';
import {
  describeComputed,
  type ParsedQuery,
  parseQuery,
  schemaOf,
} from '../rows/query/parse-query.ts';
import { type ExportRules, modelGone } from '../service/use-cases/exports/rules.ts';

/** Connects the query room to the API: each refusal names the construct and its position. */
export function checkQueryOf(models: readonly Model[]): ExportRules['checkQuery'] {
  return (dslQuery, modelName, transformed) => {
    const model = models.find(({ name }) => name === modelName);
    if (!model) return { ok: false, problems: [modelGone(modelName)] };
    const parsed = parseQuery(dslQuery, model);
    if (!('ok' in parsed)) return { ok: false, problems: parsed.problems };
    const detail = transformed ? describeComputed(parsed.ok.outputs) : null;
    return detail === null
      ? {
          ok: true,
          schema: schemaOf(parsed.ok, model),
          missingKeys: missingKeysOf(parsed.ok, model),
        }
      : { ok: false, problems: [{ code: 'invalid_input', detail, attr: 'dsl_query' }] };
  };
}

function missingKeysOf({ outputs }: ParsedQuery, { keyColumns }: Model): readonly string[] {
  const hasKey = (key: string) =>
    outputs.some(({ expression }) => expression.kind === 'column' && expression.name === key);
  return keyColumns.filter((key) => !hasKey(key));
}
