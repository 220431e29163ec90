import { useId } from 'react';
import { createTimeFormat, readLocalInput } from '../times.ts';
import { TextField } from './text-field.tsx';

const inUtc = createTimeFormat('en', 'UTC');
const zoneName = new Intl.DateTimeFormat().resolvedOptions().timeZone;

interface Props {
  /** The API's name of the field; also the input's id. */
  readonly attr?: string;
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error?: string | undefined;
  readonly help?: string;
}

/** A time in the reader's zone, with the time in UTC below. */
export function LocalTimeInput({ attr, value, help, ...rest }: Props) {
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
