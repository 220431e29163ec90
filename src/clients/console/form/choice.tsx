import { inputProps, Labelled, type LabelProps } from './labelled.tsx';

interface Props<T extends string> extends LabelProps {
  readonly value: T;
  /** Values and their texts. */
  readonly choices: readonly (readonly [T, string])[];
  readonly onChange: (value: T) => void;
  readonly disabled?: boolean;
}

/** A choice of one from a few. */
export function Choice<T extends string>(props: Props<T>) {
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
