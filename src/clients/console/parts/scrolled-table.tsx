import type { ReactNode } from 'react';

interface Props {
  readonly label: string;
  readonly heads: readonly string[];
  readonly className?: string;
  /** The rows. */
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
  /** Further heads. */
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
