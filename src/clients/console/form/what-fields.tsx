import type { ReactNode } from 'react';
import { Choice } from './choice.tsx';
import { CodeField } from './code-field.tsx';
import { ConfigGroup } from './config-group.tsx';
import { configAttr } from './draft.ts';
import { labels } from './form-words.ts';
import { offered } from './openapi.ts';
import type { PartProps } from './part-props.ts';

interface Props extends PartProps {
  /** The names of the enabled steps of the project. */
  readonly steps: readonly string[];
  readonly children: ReactNode;
}

export function WhatFields(props: Props) {
  const { description, draft, batchExport, errors, onChange, steps } = props;
  const models = description.installation?.models;
  const names = models?.map(({ name }) => name);
  const hasEvents = models?.find(({ name }) => name === draft.model)?.event_filters ?? true;
  const queryError = errors.get('dsl_query');
  const filters = ['include_events', 'exclude_events'];
  const opened =
    draft.dslQuery !== '' ||
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
      {(steps.length > 0 || draft.transformations === 'yes') && (
        <Choice
          attr="transformations"
          label={labels.transformations}
          value={draft.transformations}
          choices={[
            ...(draft.transformations === '' ? [['', 'Choose…'] as const] : []),
            ['yes', 'Yes: the chain of the project changes its rows'],
            ['no', 'No: its rows stay as they are'],
          ]}
          onChange={(transformations) => onChange({ transformations })}
          error={errors.get('transformations')}
          help={
            steps.length === 0
              ? 'The project has no enabled step now.'
              : `The enabled ${steps.length === 1 ? 'step' : 'steps'} of the project: ${steps.join(', ')}.`
          }
        />
      )}
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
        {hasEvents && <ConfigGroup {...props} group="rows" />}
      </details>
      {props.children}
    </section>
  );
}
