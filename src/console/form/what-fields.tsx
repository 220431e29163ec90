import { Choice } from './choice.tsx';
import { inputProps, Labelled, type LabelProps } from './labelled.tsx';
import type { PartProps } from './part-props.ts';

/** The model, the query and the transformations. */
export function WhatFields({ description, draft, batchExport, errors, onChange }: PartProps) {
  const query: LabelProps = {
    attr: 'dsl_query',
    label: (
      <>
        Query<small className="muted"> optional</small>
      </>
    ),
    error: errors.get('dsl_query'),
    help: 'One SELECT over the model: columns, properties, filters. Leave empty to export all columns of all rows.',
  };
  const opened = draft.dslQuery !== '' || draft.transformations || query.error !== undefined;
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
        <Labelled {...query}>
          <textarea
            {...inputProps(query)}
            className="code"
            rows={5}
            spellCheck={false}
            value={draft.dslQuery}
            placeholder="select event, properties.plan as plan, timestamp from events where event = 'signed_up'"
            onChange={(event) => onChange({ dslQuery: event.target.value })}
          />
        </Labelled>
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
