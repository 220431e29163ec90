import { inputProps, Labelled, type LabelProps } from './labelled.tsx';

interface Props extends LabelProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly placeholder?: string;
}

/** Several lines of code with their label, help and error. */
export function CodeField(props: Props) {
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
