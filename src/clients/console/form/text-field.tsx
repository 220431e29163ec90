import type { InputHTMLAttributes } from 'react';
import { inputProps, Labelled, type LabelProps } from './labelled.tsx';

interface Props extends LabelProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Further attributes of the input. */
  readonly input?: InputHTMLAttributes<HTMLInputElement>;
}

/** A text input with its label, help and error. */
export function TextField(props: Props) {
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
