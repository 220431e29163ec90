import { type FormEvent, type InputHTMLAttributes, type ReactNode, useId } from 'react';
import { createTimeFormat, readLocalInput } from '../times.ts';

interface LabelProps {
  /** The API's name of the field; also the input's id. */
  readonly attr: string;
  readonly label: ReactNode;
  readonly error?: string | undefined;
  readonly help?: ReactNode;
}

export function inputProps({ attr, error }: LabelProps) {
  return { id: attr, 'aria-invalid': error !== undefined, 'aria-describedby': `${attr}-help` };
}

interface Props extends LabelProps {
  readonly children: ReactNode;
  readonly inline?: boolean;
}

export function Labelled({ attr, label, error, help, children, inline = false }: Props) {
  return (
    <div className={inline ? 'field inline' : 'field'}>
      <label htmlFor={attr}>{label}</label>
      {children}
      <p className="help" id={`${attr}-help`}>
        {error !== undefined && <span className="bad-text">{error} </span>}
        {(error === undefined || typeof help !== 'string') && help}
      </p>
    </div>
  );
}

interface TextFieldProps extends LabelProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly input?: InputHTMLAttributes<HTMLInputElement>;
}

export function TextField(props: TextFieldProps) {
  const { value, onChange, input } = props;
  return (
    <Labelled {...props}>
      <input
        {...inputProps(props)}
        type="text"
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        {...input}
      />
    </Labelled>
  );
}

interface CodeFieldProps extends LabelProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly placeholder?: string;
}

export function CodeField(props: CodeFieldProps) {
  const { value, onChange, placeholder } = props;
  return (
    <Labelled {...props}>
      <textarea
        {...inputProps(props)}
        className="code"
        rows={5}
        spellCheck={false}
        value={value}
        placeholder={placeholder}
        onChange={(event) => onChange(event.target.value)}
      />
    </Labelled>
  );
}

interface ChoiceProps<T extends string> extends LabelProps {
  readonly value: T;
  readonly choices: readonly (readonly [T, string])[];
  readonly onChange: (value: T) => void;
  readonly disabled?: boolean;
}

export function Choice<T extends string>(props: ChoiceProps<T>) {
  const { value, choices, onChange, disabled } = props;
  return (
    <Labelled {...props}>
      <select
        {...inputProps(props)}
        value={value}
        disabled={disabled}
        onChange={(event) => onChange(event.target.value as T)}
      >
        {choices.map(([choice, name]) => (
          <option key={choice} value={choice}>
            {name}
          </option>
        ))}
      </select>
    </Labelled>
  );
}

const inUtc = createTimeFormat('en', 'UTC');
const zoneName = new Intl.DateTimeFormat().resolvedOptions().timeZone;

interface LocalTimeInputProps {
  /** The API's name of the field; also the input's id. */
  readonly attr?: string;
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error?: string | undefined;
  readonly help?: string;
}

/** A time in the reader's zone, with the time in UTC below. */
export function LocalTimeInput({ attr, value, help, ...rest }: LocalTimeInputProps) {
  const ownId = useId();
  const shown = value === '' ? (help ?? `In the zone of your browser, ${zoneName}.`) : utcOf(value);
  const input = { type: 'datetime-local' };
  return <TextField {...rest} attr={attr ?? ownId} value={value} help={shown} input={input} />;
}

function utcOf(value: string): string {
  const iso = readLocalInput(value);
  if (iso === null) return '';
  const [date = '', time = ''] = inUtc.inputValue(iso).split('T');
  return `${date} ${time} UTC`;
}

/** For a form whose answer is not another page. */
export const onSubmit = (work: () => unknown) => (event: FormEvent) => {
  event.preventDefault();
  void work();
};
