declare module 'vitest' {
  export interface ProvidedContext {
    /** Whole run: minutes beside the attacker, and the beginning of the attacks' names. */
    attackRun: { readonly minutes: number; readonly keys: number; readonly only: string };
  }
}

/** The smallest value that so large a share of all values does not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export interface Bar {
  readonly name: string;
  readonly measured: string;
  readonly allowed: string;
  readonly passed: boolean;
}

/** Compares the unrounded number. NaN, of nothing measured, misses. */
export function atMost(name: string, measured: number, limit: number, unit: string): Bar {
  const show = (value: number) => `${value.toFixed(1)} ${unit}`;
  return { name, measured: show(measured), allowed: `≤ ${show(limit)}`, passed: measured <= limit };
}

export function none(name: string, found: readonly string[]): Bar {
  const measured = found.length === 0 ? 'none' : `${found.length}: ${found.slice(0, 3).join('; ')}`;
  return { name, measured, allowed: 'none', passed: found.length === 0 };
}

/** Lines of a table, each column as wide as its widest cell. */
export function tableOf(rows: readonly (readonly string[])[]): string {
  const widths = rows.reduce<number[]>(
    (all, row) => row.map((cell, column) => Math.max(all[column] ?? 0, cell.length)),
    [],
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return rows.map(line).join('\n');
}
