import type { ReactNode } from 'react';
import type { Field } from './fields.ts';

interface Props {
  readonly field: Field;
  /** The API's name of the field; also the input's id. */
  readonly attr: string;
  readonly value: string | boolean;
  readonly error: string | undefined;
  readonly onChange: (value: string | boolean) => void;
  /** Whether a secret is stored: an empty input keeps it. */
  readonly stored?: boolean;
}

/** One input of the form that a schema describes. */
export function FieldInput(props: Props) {
  const { field, attr, value, error, onChange, stored = false } = props;
  const common = {
    id: attr,
    'aria-invalid': error !== undefined,
    'aria-describedby': `${attr}-help`,
    'aria-required': field.required,
  };
  if (field.kind === 'flag') {
    return (
      <FieldFrame {...props} inline>
        <input
          {...common}
          type="checkbox"
          checked={value === true}
          onChange={(event) => onChange(event.target.checked)}
        />
      </FieldFrame>
    );
  }
  const change = (event: { target: { value: string } }) => onChange(event.target.value);
  const text = String(value);
  const input: Record<Exclude<Field['kind'], 'flag'>, () => ReactNode> = {
    choice: () => (
      <select {...common} value={text} onChange={change}>
        {(field.nullable || (field.required && text === '')) && (
          <option value="">{field.nullable ? 'None' : 'Choose…'}</option>
        )}
        {field.choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    ),
    list: () => (
      <textarea {...common} rows={3} value={text} onChange={change} placeholder={field.example} />
    ),
    number: () => (
      <input
        {...common}
        type="number"
        min={field.minimum ?? undefined}
        max={field.maximum ?? undefined}
        value={text}
        onChange={change}
        placeholder={field.example}
      />
    ),
    secret: () => (
      <input
        {...common}
        type="password"
        autoComplete="new-password"
        spellCheck={false}
        value={text}
        onChange={change}
        placeholder={stored ? 'unchanged' : ''}
      />
    ),
    text: () => (
      <input
        {...common}
        type="text"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={change}
        placeholder={field.example}
      />
    ),
  };
  return <FieldFrame {...props}>{input[field.kind]()}</FieldFrame>;
}

interface FrameProps extends Props {
  readonly children: ReactNode;
  readonly inline?: boolean;
}

/** A description; shows text in backticks as code. */
function Prose({ text }: { text: string }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text never change their order.
  return text.split('`').map((piece, i) => (i % 2 ? <code key={i}>{piece}</code> : piece));
}

function FieldFrame({ field, attr, error, children, inline = false }: FrameProps) {
  return (
    <div className={inline ? 'field inline' : 'field'}>
      <label htmlFor={attr}>
        {field.label}
        {!field.required && field.kind !== 'flag' && <small className="muted"> optional</small>}
      </label>
      {children}
      <p className="help" id={`${attr}-help`}>
        {error !== undefined && <span className="bad-text">{error} </span>}
        <Prose text={field.description} />
        {field.kind === 'list' && ' One per line.'}
      </p>
    </div>
  );
}
