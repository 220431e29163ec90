type LabRow = Record<string, unknown>;

/** The rows of a text: one JSON object, a list of them, or one per line. Null for any other text. */
export function labRowsOf(text: string): LabRow[] | null {
  const whole = parse(text);
  const rows =
    whole === undefined
      ? text
          .split('\n')
          .filter((line) => line.trim() !== '')
          .map(parse)
      : [whole].flat();
  return rows.length > 0 && rows.every(isRow) ? rows : null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isRow(value: unknown): value is LabRow {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
