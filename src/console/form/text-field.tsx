interface Props {
  readonly attr: string;
  readonly label: string;
  readonly value: string;
  readonly error: string | undefined;
  readonly onChange: (value: string) => void;
  readonly help?: string;
  readonly placeholder?: string;
  readonly required?: boolean;
  /** The id of a datalist. */
  readonly list?: string;
}

/** A text input with its label, help and error. */
export function TextField(props: Props) {
  const { attr, label, value, error, onChange, help, placeholder, required = false, list } = props;
  return (
    <div className="field">
      <label htmlFor={attr}>{label}</label>
      <input
        id={attr}
        type="text"
        autoComplete="off"
        spellCheck={false}
        value={value}
        list={list}
        placeholder={placeholder}
        onChange={(event) => onChange(event.target.value)}
        aria-required={required}
        aria-invalid={error !== undefined}
        aria-describedby={`${attr}-help`}
      />
      <p className="help" id={`${attr}-help`}>
        {error !== undefined && <span className="bad-text">{error} </span>}
        {help}
      </p>
    </div>
  );
}
