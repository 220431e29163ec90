/** Null if none is near. @param lettersPerMistake letters for each one that may be wrong */
export function nearestName(
  name: string,
  names: readonly string[],
  lettersPerMistake = 6,
): string | null {
  let nearest: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of names) {
    const letters = Math.min(name.length, candidate.length);
    const most = Math.min(Math.floor(letters / lettersPerMistake), least - 1);
    // Each letter that one has more is a mistake. The start of each process compares its whole environment with all settings.
    if (Math.abs(name.length - candidate.length) > most) continue;
    const mistakes = mistakesBetween(name, candidate);
    if (mistakes > most) continue;
    nearest = candidate;
    least = mistakes;
  }
  return nearest;
}

/** Letters to add, remove or replace (Levenshtein), with case ignored. */
function mistakesBetween(a: string, b: string): number {
  const [from, to] = [a.toUpperCase(), b.toUpperCase()];
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
