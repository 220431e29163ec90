/** Undefined for what is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The rows of a text: one JSON object, a list of them, or one per line. Null for any other text. */
export function labRowsOf(text: string): Record<string, unknown>[] | null {
  const whole = parseJson(text);
  const rows =
    whole === undefined
      ? text
          .split('\n')
          .filter((line) => line.trim() !== '')
          .map(parseJson)
      : [whole].flat();
  return rows.length > 0 && rows.every(isRecord) ? rows : null;
}
