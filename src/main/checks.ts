import type { ApiOptions } from '../service/api/options.ts';
import type { CheckStep } from '../rows/destinations/destination.ts';
import { SluiceError, toSluiceError } from '../foundation/domain/errors.ts';
import { describeError } from '../foundation/domain/describe-error.ts';
import type { Model } from '../foundation/domain/model.ts';
import { describeComputed, parseQuery, schemaOf } from '../rows/query/parse-query.ts';
import { type ExportRules, modelGone } from '../service/use-cases/exports/rules.ts';
import type { SourceOf } from './models.ts';

/** A source that takes longer to answer has failed its check. */
const patienceMs = 20_000;

/**
 * Checks the source of a model as a step of a destination's test, in the words of `sluice models check` and of a run.
 */
export function checkSourceOf(
  sourceOf: SourceOf,
  tenantKeyOf: (teamId: number) => Promise<string>,
): NonNullable<ApiOptions['checkSource']> {
  return async (model, teamId, interval) => {
    try {
      const signal = AbortSignal.timeout(patienceMs);
      const { findings } = await sourceOf(model).inspect(signal);
      const refused = findings.find(({ severity }) => severity === 'error');
      if (refused) return failed(new SluiceError('source.standby', refused.detail));
      const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
      const tenantKey = await tenantKeyOf(teamId);
      await sourceOf(model).describe({ model, tenantKey, interval, ...all }, signal);
      const tried = await sourceOf(model).tryRow(model, tenantKey, false, signal);
      const warnings = [...findings.map(({ detail }) => detail), ...tried];
      const warning = warnings.length > 0 ? warnings.join(' ') : null;
      return { step: 'source', passed: true, error: null, warning };
    } catch (error) {
      const found = toSluiceError(error);
      return failed(
        found.code.startsWith('source.') ? found : new SluiceError('source.unavailable'),
      );
    }
  };
}

function failed(error: SluiceError): CheckStep {
  return { step: 'source', passed: false, error: describeError(error), warning: null };
}

/** Connects the query room to the API: each refusal names the construct and its position. */
export function checkQueryOf(models: readonly Model[]): ExportRules['checkQuery'] {
  return (dslQuery, modelName, transformed) => {
    const model = models.find(({ name }) => name === modelName);
    if (!model) return { ok: false, problems: [modelGone(modelName)] };
    const parsed = parseQuery(dslQuery, model);
    if (!('ok' in parsed)) return { ok: false, problems: parsed.problems };
    const detail = transformed ? describeComputed(parsed.ok.outputs) : null;
    return detail === null
      ? { ok: true, schema: schemaOf(parsed.ok, model) }
      : { ok: false, problems: [{ code: 'invalid_input', detail, attr: 'dsl_query' }] };
  };
}
