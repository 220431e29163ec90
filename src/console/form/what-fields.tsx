import type { PartProps } from './part-props.ts';

/** The model, the query and the transformations. */
export function WhatFields({ description, draft, batchExport, errors, onChange }: PartProps) {
  const queryError = errors.get('dsl_query');
  const opened = draft.dslQuery !== '' || draft.transformations || queryError !== undefined;
  return (
    <section className="panel">
      <h2>Rows</h2>
      <div className="field">
        <label htmlFor="model">Model</label>
        <select
          id="model"
          value={draft.model}
          disabled={batchExport !== null}
          onChange={(event) => onChange({ model: event.target.value })}
          aria-invalid={errors.has('model')}
          aria-describedby="model-help"
        >
          {description.models.map((model) => (
            <option key={model}>{model}</option>
          ))}
        </select>
        <p className="help" id="model-help">
          {errors.has('model') && <span className="bad-text">{errors.get('model')} </span>}
          {batchExport && 'It cannot change.'}
        </p>
      </div>
      <details open={opened || undefined}>
        <summary>Choose columns, filter, transform</summary>
        <div className="field">
          <label htmlFor="dsl_query">
            Query<small className="muted"> optional</small>
          </label>
          <textarea
            id="dsl_query"
            className="code"
            rows={5}
            spellCheck={false}
            value={draft.dslQuery}
            placeholder="select event, properties.plan as plan, timestamp from events where event = 'signed_up'"
            onChange={(event) => onChange({ dslQuery: event.target.value })}
            aria-invalid={queryError !== undefined}
            aria-describedby="dsl_query-help"
          />
          <p className="help" id="dsl_query-help">
            {queryError !== undefined && <span className="bad-text">{queryError} </span>}
            One SELECT over the model: columns, properties, filters. Leave empty to export all
            columns of all rows.
          </p>
        </div>
        <label className="choice">
          <input
            type="checkbox"
            checked={draft.transformations}
            onChange={(event) => onChange({ transformations: event.target.checked })}
          />
          <span>
            <strong>Apply transformations</strong>
            <small>The project's enabled transformation configs, in their order.</small>
          </span>
        </label>
      </details>
    </section>
  );
}
