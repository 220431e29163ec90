import { clientVariables } from './client-settings.ts';
import { settings } from './settings.ts';

/** A variable that looks like one of our settings and is none. */
export interface UnknownSetting {
  readonly name: string;
  /** The setting that was probably meant; null if none is near. */
  readonly nearest: string | null;
}

const known = Object.keys(settings);
/** The command line reads them; on the same machine a service sees them too. */
const ofClients: readonly string[] = Object.values(clientVariables);

/**
 * Variables that are probably misspelled settings: those that begin with `SLUICE_`, and those that differ from a
 * setting in a letter or two. Names without an underscore are too short to say (`HOME` is not `HOST`).
 */
export function findUnknownSettings(
  env: Readonly<Record<string, string | undefined>> = process.env,
): readonly UnknownSetting[] {
  return Object.keys(env)
    .filter((name) => name.includes('_') && !known.includes(name) && !ofClients.includes(name))
    .flatMap((name) => {
      const nearest = nearestName(name, known);
      return nearest !== null || name.startsWith('SLUICE_') ? [{ name, nearest }] : [];
    });
}

/**
 * The name of `names` that differs in the fewest letters; null if none is near.
 *
 * @param lettersPerMistake letters for each one that may be wrong
 */
export function nearestName(
  name: string,
  names: readonly string[],
  lettersPerMistake = 6,
): string | null {
  const bare = name.replace(/^SLUICE_/, '');
  let nearest: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const setting of names) {
    const mistakes = bare === setting ? 0 : mistakesBetween(name, setting);
    const letters = Math.min(name.length, setting.length);
    if (mistakes >= least || mistakes > Math.floor(letters / lettersPerMistake)) continue;
    nearest = setting;
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
