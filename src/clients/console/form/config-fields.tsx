import type { ReactNode } from 'react';
import type { ConfigDraft, Field, FieldValues } from './fields.ts';
import {
  applies,
  choicesOf,
  choiceText,
  type Group,
  groupOf,
  withFormat,
} from './file-settings.ts';
import { inputProps, Labelled } from './inputs.tsx';
import { describeNow } from './setting-words.ts';
import { configAttr, destinationForm, type PartProps } from './draft.ts';

interface Props {
  readonly field: Field;
  /** The API's name of the field; also the input's id. */
  readonly attr: string;
  readonly value: string | boolean;
  readonly error: string | undefined;
  readonly onChange: (value: string | boolean) => void;
  /** True if a secret is stored: an empty input keeps it. */
  readonly stored: boolean;
}

export function FieldInput(props: Props) {
  const { field, attr, error } = props;
  const isFlag = field.kind === 'flag';
  const label = (
    <>
      {field.label}
      {!field.required && !isFlag && <small className="muted"> optional</small>}
    </>
  );
  const now = describeNow(field, props.value);
  const help = (
    <>
      {now !== null && `Now: ${now}. `}
      <Prose text={field.description} />
      {field.kind === 'list' && ' One per line.'}
    </>
  );
  return (
    <Labelled attr={attr} label={label} error={error} help={help} inline={isFlag}>
      {inputOf(props, { ...inputProps({ attr, label, error }), 'aria-required': field.required })}
    </Labelled>
  );
}

function inputOf({ field, value, onChange, stored }: Props, common: object): ReactNode {
  const rest = {
    ...common,
    value: String(value),
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  switch (field.kind) {
    case 'flag':
      return (
        <input
          {...common}
          type="checkbox"
          checked={value === true}
          onChange={(event) => onChange(event.target.checked)}
        />
      );
    case 'choice':
      return (
        <select {...rest}>
          {(field.nullable || field.required) && (
            <option value="">{field.nullable ? choiceText(field, '') : 'Choose…'}</option>
          )}
          {field.choices.map((choice) => (
            <option key={choice} value={choice}>
              {choiceText(field, choice)}
            </option>
          ))}
        </select>
      );
    case 'list':
      return <textarea {...rest} rows={3} placeholder={field.example} />;
    case 'json':
      return <textarea {...rest} className="code" rows={4} spellCheck={false} />;
    case 'number': {
      const { minimum, maximum } = field;
      const range = { min: minimum ?? undefined, max: maximum ?? undefined };
      return <input {...rest} type="number" {...range} placeholder={field.example} />;
    }
    case 'time':
      return <input {...rest} type="time" />;
    case 'secret': {
      const placeholder = stored ? 'unchanged' : '';
      const attributes = { autoComplete: 'new-password', spellCheck: false, placeholder };
      return <input {...rest} type="password" {...attributes} />;
    }
    case 'text': {
      const free = { autoComplete: 'off', spellCheck: false, placeholder: field.example };
      return <input {...rest} type="text" {...free} />;
    }
  }
}

/** A description; shows text in backticks as code. */
function Prose({ text }: { text: string }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text never change their order.
  return text.split('`').map((piece, i) => (i % 2 ? <code key={i}>{piece}</code> : piece));
}

interface ConfigFieldProps {
  readonly field: Field;
  readonly attr: string;
  readonly draft: ConfigDraft;
  readonly error: string | undefined;
  /** True if the API has a value of it that it never shows. */
  readonly hasSecret: boolean;
  readonly onChange: (part: Partial<ConfigDraft>) => void;
  /** The values after a change of this one; default: the others stay. */
  readonly withValue?: (value: string | boolean) => FieldValues;
}

/** One field of a config. A stored secret stays unless it is replaced or removed. */
export function ConfigField(props: ConfigFieldProps) {
  const { field, attr, draft, error, hasSecret, onChange } = props;
  const { name, kind } = field;
  const isCleared = draft.cleared.has(name);
  const toggle = (clear: boolean) => {
    const cleared = new Set(draft.cleared);
    if (clear) cleared.add(name);
    else cleared.delete(name);
    onChange({ cleared });
  };
  return (
    <div className={kind === 'json' ? 'span' : undefined}>
      <FieldInput
        field={field}
        attr={attr}
        value={draft.values[name] ?? ''}
        error={error}
        stored={hasSecret && !isCleared}
        onChange={(value) =>
          onChange({ values: props.withValue?.(value) ?? { ...draft.values, [name]: value } })
        }
      />
      {kind === 'secret' && hasSecret && draft.values[name] === '' && (
        <label className="choice small muted">
          <input
            type="checkbox"
            checked={isCleared}
            onChange={(event) => toggle(event.target.checked)}
          />
          Remove the stored value
        </label>
      )}
    </div>
  );
}

/** The settings of a part of the form that apply with the other values. @param group null: of all */
export function fieldsOfGroup(
  { description, draft, batchExport }: PartProps,
  group: Group | null,
): readonly Field[] {
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  const formats = description.installation?.file_formats ?? [];
  // Stored ones stay if their fields are empty.
  const needsSecrets = description.installation?.own_credentials === false && batchExport === null;
  return fields
    .filter((field) => (group === null || groupOf(field) === group) && applies(field, draft.values))
    .map((field) => ({
      ...field,
      required: field.required || (needsSecrets && field.kind === 'secret'),
      choices: choicesOf(field, draft.values, formats),
    }));
}

interface ConfigGroupProps extends PartProps {
  readonly fields: readonly Field[];
}

export function ConfigFields({ fields, ...props }: ConfigGroupProps) {
  const { description, draft, batchExport, errors, onChange } = props;
  const formats = description.installation?.file_formats ?? [];
  return fields.map((field) => (
    <ConfigField
      key={field.name}
      field={field}
      attr={configAttr(field.name)}
      draft={draft}
      error={errors.get(configAttr(field.name))}
      hasSecret={batchExport !== null}
      onChange={onChange}
      {...(field.name === 'file_format' && {
        withValue: (format) => withFormat(draft.values, String(format), formats),
      })}
    />
  ));
}
