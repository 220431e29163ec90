import type { ReactNode } from 'react';
import { Choice } from './choice.tsx';
import { CodeField } from './code-field.tsx';
import { ConfigGroup } from './config-group.tsx';
import { configAttr, modelChoices } from './draft.ts';
import { fieldProps } from './form-words.ts';
import type { PartProps } from './part-props.ts';

interface Props extends PartProps {
  /** The names of the enabled steps of the project. */
  readonly steps: readonly string[];
  readonly children: ReactNode;
}

/** The model, the query and the transformations. */
export function WhatFields(props: Props) {
  const { description, draft, batchExport, errors, onChange, steps } = props;
  const models = description.installation?.models;
  const hasEvents = models?.find(({ name }) => name === draft.model)?.event_filters ?? true;
  const query = fieldProps('dsl_query', errors);
  const filters = ['include_events', 'exclude_events'];
  const opened =
    draft.dslQuery !== '' ||
    query.error !== undefined ||
    filters.some((name) => draft.values[name] || errors.has(configAttr(name)));
  return (
    <section className="card panel">
      <h2>Rows</h2>
      <Choice
        {...fieldProps('model', errors)}
        value={draft.model}
        choices={modelChoices(description, draft.model)}
        disabled={batchExport !== null}
        onChange={(model) => onChange({ model })}
        help={batchExport && 'It cannot change.'}
      />
      {(steps.length > 0 || draft.transformations === 'yes') && (
        <Choice
          {...fieldProps('transformations', errors)}
          value={draft.transformations}
          choices={[
            ...(draft.transformations === '' ? [['', 'Choose…'] as const] : []),
            ['yes', 'Yes: the chain of the project changes its rows'],
            ['no', 'No: its rows stay as they are'],
          ]}
          onChange={(transformations) => onChange({ transformations })}
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
          {...query}
          label={
            <>
              {query.label}
              <small className="muted"> optional</small>
            </>
          }
          value={draft.dslQuery}
          placeholder={`select … from "${draft.model || 'model'}" where …`}
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
