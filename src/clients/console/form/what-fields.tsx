import type { ReactNode } from 'react';
import { Choice } from './choice.tsx';
import { CodeField } from './code-field.tsx';
import { ConfigGroup } from './config-group.tsx';
import { configAttr } from './draft.ts';
import { labels } from './form-words.ts';
import { offered } from './openapi.ts';
import type { PartProps } from './part-props.ts';

/** The model, the query and the transformations. */
export function WhatFields(props: PartProps & { readonly children: ReactNode }) {
  const { description, draft, batchExport, errors, onChange } = props;
  const models = description.installation?.models;
  const names = models?.map(({ name }) => name);
  const hasEvents = models?.find(({ name }) => name === draft.model)?.event_filters ?? true;
  const queryError = errors.get('dsl_query');
  const filters = ['include_events', 'exclude_events'];
  const opened =
    draft.dslQuery !== '' ||
    draft.transformations ||
    queryError !== undefined ||
    filters.some((name) => draft.values[name] || errors.has(configAttr(name)));
  return (
    <section className="card panel">
      <h2>Rows</h2>
      <Choice
        attr="model"
        label={labels.model}
        value={draft.model}
        choices={offered(description.models, names, draft.model).map((model) => [model, model])}
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
              {labels.dsl_query}
              <small className="muted"> optional</small>
            </>
          }
          value={draft.dslQuery}
          placeholder="select event, properties.plan as plan, timestamp from events where event = 'signed_up'"
          error={queryError}
          onChange={(dslQuery) => onChange({ dslQuery })}
          help={`One SELECT over the model: columns, properties, filters. Leave empty to export all columns of all rows.${
            batchExport?.filters
              ? ' It has the conditions of the export’s filters. If you change it here, only this text decides, and the filters are removed.'
              : ''
          }`}
        />
        <label className="choice">
          <input
            id="transformations"
            type="checkbox"
            checked={draft.transformations}
            onChange={(event) => onChange({ transformations: event.target.checked })}
          />
          <span>
            <strong>{labels.transformations}</strong>
            <small>The project's enabled transformation configs, in their order.</small>
          </span>
        </label>
        {hasEvents && <ConfigGroup {...props} group="rows" />}
      </details>
      {props.children}
    </section>
  );
}
