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

export function Heads({ names }: { readonly names: readonly string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th key={name} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}
