import type { ReactNode } from 'react';
import type { Field } from './fields.ts';
import { choiceText } from './file-settings.ts';
import { inputProps, Labelled } from './labelled.tsx';
import { describeNow } from './setting-words.ts';

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

/** One input of the form that a schema describes. */
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
