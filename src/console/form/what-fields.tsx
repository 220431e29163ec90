import { Choice } from './choice.tsx';
import { CodeField } from './code-field.tsx';
import type { PartProps } from './part-props.ts';

/** The model, the query and the transformations. */
export function WhatFields({ description, draft, batchExport, errors, onChange }: PartProps) {
  const queryError = errors.get('dsl_query');
  const opened = draft.dslQuery !== '' || draft.transformations || queryError !== undefined;
  return (
    <section className="card panel">
      <h2>Rows</h2>
      <Choice
        attr="model"
        label="Model"
        value={draft.model}
        choices={description.models.map((model) => [model, model])}
        disabled={batchExport !== null}
        onChange={(model) => onChange({ model })}
        error={errors.get('model')}
        help={batchExport && 'It cannot change.'}
      />
      <details open={opened || undefined}>
        <summary>Choose columns, filter, transform</summary>
        <CodeField
          attr="dsl_query"
          label={
            <>
              Query<small className="muted"> optional</small>
            </>
          }
          value={draft.dslQuery}
          placeholder="select event, properties.plan as plan, timestamp from events where event = 'signed_up'"
          error={queryError}
          onChange={(dslQuery) => onChange({ dslQuery })}
          help="One SELECT over the model: columns, properties, filters. Leave empty to export all columns of all rows."
        />
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
