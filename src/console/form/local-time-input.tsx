import { useId } from 'react';
import { createTimeFormat, readLocalInput } from '../times.ts';

const inUtc = createTimeFormat('en', 'UTC');

interface Props {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error?: string | undefined;
  readonly help?: string;
}

/** A time in the reader's zone, with the time in UTC below. */
export function LocalTimeInput({ label, value, onChange, error, help = '' }: Props) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="datetime-local"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        aria-invalid={error !== undefined}
        aria-describedby={`${id}-help`}
      />
      <p className="help" id={`${id}-help`}>
        {error !== undefined && <span className="bad-text">{error} </span>}
        {value === '' ? help : utcOf(value)}
      </p>
    </div>
  );
}

function utcOf(value: string): string {
  const iso = readLocalInput(value);
  if (iso === null) return '';
  const [date = '', time = ''] = inUtc.inputValue(iso).split('T');
  return `${date} ${time} UTC`;
}
