import type { ReactNode } from 'react';

interface FactsProps {
  /** Values by their names. A fact without a value is left out. */
  readonly of: Readonly<Record<string, ReactNode>>;
}

export function Facts({ of }: FactsProps) {
  return (
    <dl className="facts">
      {Object.entries(of)
        .filter(([, value]) => ![null, undefined, false].some((none) => none === value))
        .map(([name, value]) => (
          <Fact key={name} name={name}>
            {value}
          </Fact>
        ))}
    </dl>
  );
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

interface Props {
  readonly label: string;
  readonly heads: readonly string[];
  readonly className?: string;
  readonly children: ReactNode;
}

/** A table that scrolls in a box of its own, which a keyboard reaches. */
export function ScrolledTable({ label, heads, className = 'sample small', children }: Props) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
    <section className={className} aria-label={label} tabIndex={0}>
      <table>
        <Heads names={heads} />
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

interface HeadsProps {
  readonly names: readonly string[];
  /** Columns after these, of numbers. */
  readonly numbers?: readonly string[];
  readonly children?: ReactNode;
}

export function Heads({ names, numbers = [], children }: HeadsProps) {
  return (
    <thead>
      <tr>
        {[...names, ...numbers].map((name, index) => (
          <th key={name} scope="col" className={index < names.length ? undefined : 'number'}>
            {name}
          </th>
        ))}
        {children}
      </tr>
    </thead>
  );
}

interface FilterChipsProps<T extends string> {
  readonly label: string;
  readonly choices: readonly T[];
  readonly chosen: readonly T[];
  readonly nameOf?: (choice: T) => string;
  readonly onChange: (chosen: readonly T[]) => void;
}

/** The items without this one, or with it if it was not among them. */
export const toggled = <T,>(items: readonly T[], item: T): readonly T[] =>
  items.includes(item) ? items.filter((one) => one !== item) : [...items, item];

/** A filter with several choices; none chosen means all. */
export function FilterChips<T extends string>(props: FilterChipsProps<T>) {
  const { label, choices, chosen, nameOf = (choice) => choice, onChange } = props;
  return (
    <fieldset className="row">
      <legend className="unseen">{label}</legend>
      {choices.map((choice) => (
        <button
          key={choice}
          type="button"
          className="chip small"
          aria-pressed={chosen.includes(choice)}
          onClick={() => onChange(toggled(chosen, choice))}
        >
          {nameOf(choice)}
        </button>
      ))}
    </fieldset>
  );
}
