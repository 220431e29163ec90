import { allowsColours } from '../../foundation/config/client-settings.ts';
import type { Terminal } from './deps.ts';

/** Text for people: tables, colours, times. What others wrote never reaches the terminal as it is. */

export type Colour = 'red' | 'green' | 'yellow' | 'dim' | 'bold';

const codes: Readonly<Record<Colour, number>> = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 };

export type Paint = (text: string, colour: Colour) => string;

export function hasColours({ isTerminal, env }: Pick<Terminal, 'isTerminal' | 'env'>): boolean {
  return isTerminal && allowsColours(env);
}

/** Colours only on a terminal that wants them. */
export function paintFor(terminal: Pick<Terminal, 'isTerminal' | 'env'>): Paint {
  return hasColours(terminal)
    ? (text, colour) => `\x1b[${codes[colour]}m${text}\x1b[0m`
    : (text) => text;
}

/** Control characters, and those that break a line or change the direction of the text. */
const unsafe = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** The text on one line, without characters that a terminal would act on. */
export function plain(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').replaceAll(unsafe, '\ufffd');
}

/** Unsafe characters, and codes that `paintFor` makes. */
const unsafeOrColour = new RegExp(`\\u001b\\[(?:[012]|3[123])m|${unsafe.source}`, 'gu');

/**
 * The last step of every printed line: what others wrote may have characters that a terminal acts on. They become escapes
 * as JSON has them, so a line of JSON keeps its values.
 *
 * @param hasColours whether the codes of colours stay
 */
export function visible(line: string, hasColours: boolean): string {
  return line.replaceAll(unsafeOrColour, (found) =>
    hasColours && found.length > 1
      ? found
      : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}${found.slice(1)}`,
  );
}

export interface Cell {
  readonly text: string;
  readonly colour?: Colour | undefined;
  /** Numbers are aligned at their end. */
  readonly atEnd?: boolean;
}

export const count = (value: number): Cell => ({ text: value.toLocaleString('en'), atEnd: true });

/** Lines of a table whose columns are aligned. */
export function tableLines(
  head: readonly string[],
  rows: readonly (readonly (Cell | string)[])[],
  paint: Paint,
): readonly string[] {
  const cells = rows.map((row) =>
    row.map((cell): Cell => {
      const { text, ...rest } = typeof cell === 'string' ? { text: cell } : cell;
      return { ...rest, text: plain(text) };
    }),
  );
  const heads = head.map((text, column): Cell => {
    const atEnd = cells.length > 0 && cells.every((row) => row[column]?.atEnd === true);
    return { text, colour: 'dim', atEnd };
  });
  const all = [heads, ...cells];
  const widths = head.map((_, column) => Math.max(...all.map((row) => widthOf(row[column]))));
  return all.map((row) =>
    row
      .map((cell, column) => {
        const space = ' '.repeat(Math.max(0, (widths[column] ?? 0) - widthOf(cell)));
        const text = cell.colour === undefined ? cell.text : paint(cell.text, cell.colour);
        if (cell.atEnd) return space + text;
        return column === row.length - 1 ? text : text + space;
      })
      .join('  ')
      .trimEnd(),
  );
}

/** The text, with `…` in place of what is beyond `most` characters. JSON has all of it. */
export const cut = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text;

const longestName = 48;

/** A name in a table: the columns after a long one would be off the screen. JSON has all of it. */
export function shortName(name: string): string {
  const letters = [...name];
  return letters.length > longestName ? `${letters.slice(0, longestName - 1).join('')}…` : name;
}

const widthOf = (cell: Cell | undefined) => [...(cell?.text ?? '')].length;

/** `2024-03-01T00:00:00Z`: without fractions of a second. */
export function shortTime(timestamp: string | null): string {
  return timestamp === null ? '-' : plain(timestamp).replace(/\.\d+Z$/, 'Z');
}

/** `1 export`, `3 exports` */
export function plural(number: number, what: string): string {
  return `${number.toLocaleString('en')} ${what}${number === 1 ? '' : 's'}`;
}
