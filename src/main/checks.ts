import type { CheckStep } from '../destinations/destination.ts';
import { describeError, SluiceError, toSluiceError } from '../domain/errors.ts';
import type { Model } from '../domain/model.ts';
import { describeComputed, parseQuery, schemaOf } from '../query/parse-query.ts';
import { anyInterval } from '../sources/source.ts';
import type { ExportRules } from '../use-cases/exports/rules.ts';
import type { SourceOf } from './models.ts';

/** A source that takes longer to answer has failed its check. */
const patienceMs = 10_000;

/**
 * Checks the source of a model as a step of a destination's test. Its text is for the export's owner; the
 * operator's details are in readiness and in `sluice models check`.
 */
export function checkSourceOf(
  sourceOf: SourceOf,
): (model: string, teamId: number) => Promise<CheckStep> {
  return async (model, teamId) => {
    try {
      const signal = AbortSignal.timeout(patienceMs);
      const { findings } = await sourceOf(model).inspect(signal);
      const isRefused = findings.some(({ severity }) => severity === 'error');
      if (isRefused) return failed(new SluiceError('source.standby'));
      const all = { dslQuery: null, includeEvents: null, excludeEvents: null };
      await sourceOf(model).describe({ model, teamId, interval: anyInterval, ...all }, signal);
      const warning = findings.length > 0 ? unsettledForLonger : null;
      return { step: 'source', passed: true, error: null, warning };
    } catch (error) {
      const found = toSluiceError(error);
      return failed(
        found.code.startsWith('source.') ? found : new SluiceError('source.unavailable'),
      );
    }
  };
}

const unsettledForLonger =
  'Intervals stay unsettled longer than necessary. Ask your operator to check /readyz.';

function failed(error: SluiceError): CheckStep {
  return { step: 'source', passed: false, error: describeError(error), warning: null };
}

/** Connects the query room to the API: each refusal names the construct and its position. */
export function checkQueryOf(models: readonly Model[]): ExportRules['checkQuery'] {
  return (dslQuery, modelName, transformed) => {
    const model = models.find(({ name }) => name === modelName);
    if (!model) throw new Error(`there is no model ${modelName}`);
    const parsed = parseQuery(dslQuery, model);
    if (!('ok' in parsed)) return { ok: false, problems: parsed.problems };
    const detail = transformed ? describeComputed(parsed.ok.outputs) : null;
    return detail === null
      ? { ok: true, schema: schemaOf(parsed.ok, model) }
      : { ok: false, problems: [{ code: 'invalid_input', detail, attr: 'dsl_query' }] };
  };
}
