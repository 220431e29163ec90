import { allowsColours } from '../config/client-settings.ts';
import type { Terminal } from './deps.ts';

/** Text for people: tables, colours, times. What others wrote never reaches the terminal as it is. */

export type Colour = 'red' | 'green' | 'yellow' | 'dim' | 'bold';

const codes: Readonly<Record<Colour, number>> = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 };

export type Paint = (text: string, colour: Colour) => string;

/** Colours only on a terminal that wants them. */
export function paintFor({ isTerminal, env }: Pick<Terminal, 'isTerminal' | 'env'>): Paint {
  return isTerminal && allowsColours(env)
    ? (text, colour) => `\x1b[${codes[colour]}m${text}\x1b[0m`
    : (text) => text;
}

/** Control characters, and those that change the direction of the text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
const unsafe = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The text on one line, without characters that a terminal would act on. */
export function plain(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').replaceAll(unsafe, '\ufffd');
}

export interface Cell {
  readonly text: string;
  readonly colour?: Colour;
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

const widthOf = (cell: Cell | undefined) => [...(cell?.text ?? '')].length;

/** `2024-03-01T00:00:00Z`: without fractions of a second. */
export function shortTime(timestamp: string | null): string {
  return timestamp === null ? '-' : plain(timestamp).replace(/\.\d+Z$/, 'Z');
}

/** `1 export`, `3 exports` */
export function plural(number: number, what: string): string {
  return `${number.toLocaleString('en')} ${what}${number === 1 ? '' : 's'}`;
}
