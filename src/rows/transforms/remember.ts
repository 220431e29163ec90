/** A longer text hardly repeats. */
const maxChars = 1_000;
/** Limit of all remembered texts together. Their results are about as large. */
const maxCharsInAll = 256 * 1024;

export function remember<T>(compute: (text: string) => T): (text: string) => T {
  const results = new Map<string, T>();
  let chars = 0;
  return (text) => {
    if (text.length > maxChars) return compute(text);
    const earlier = results.get(text);
    if (earlier !== undefined) return earlier;
    // A part of a string keeps the whole of it in memory, so a copy is remembered.
    const copy = Buffer.from(text, 'utf16le').toString('utf16le');
    const result = compute(copy);
    chars += copy.length + overheadChars;
    if (chars > maxCharsInAll) {
      results.clear();
      chars = copy.length + overheadChars;
    }
    results.set(copy, result);
    return result;
  };
}

const overheadChars = 100;
