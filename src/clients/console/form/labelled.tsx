import type { ReactNode } from 'react';

export interface LabelProps {
  /** The API's name of the field; also the input's id. */
  readonly attr: string;
  readonly label: ReactNode;
  readonly error?: string | undefined;
  readonly help?: ReactNode;
}

/** Attributes that connect an input with its label, help and error. */
export function inputProps({ attr, error }: LabelProps) {
  return { id: attr, 'aria-invalid': error !== undefined, 'aria-describedby': `${attr}-help` };
}

interface Props extends LabelProps {
  readonly children: ReactNode;
  readonly inline?: boolean;
}

/** An input with its label, help and error. */
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
