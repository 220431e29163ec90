/** A pure function that keeps its last results: names and user agents repeat from row to row. */
export function remember<T>(compute: (text: string) => T, limit = 2_000): (text: string) => T {
  const results = new Map<string, T>();
  return (text) => {
    const known = results.get(text);
    if (known !== undefined) return known;
    const result = compute(text);
    if (results.size >= limit) results.clear();
    results.set(text, result);
    return result;
  };
}
