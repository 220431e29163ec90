import { refusedCharacters } from './key-template.ts';
import { nearestName } from './nearest-name.ts';
import type { Column } from './row-block.ts';

/** Folders by the values of rows, as Hive has them: `event=signup/day=2026-11-25`. An entry is a column, or `day(inserted_at)`. */

/** Parts of a date or time, as Iceberg names its transforms; each has all larger parts in front. */
export const dateParts = ['year', 'month', 'day', 'hour'] as const;

export type DatePart = (typeof dateParts)[number];

export const maxPartitionFields = 3;

export const maxPartitions = 10_000;

export interface PartitionField {
  readonly column: string;
  /** Null: the value of the column itself. */
  readonly part: DatePart | null;
  /** The name in front of the `=`: the column, or the date part. */
  readonly name: string;
}

/** Bytes of a folder's name, `event=signup`. A key of 1,024 bytes has room for three beside a prefix of 300. */
export const maxFolderBytes = 200;

const partForm = /^(\w+)\((.+)\)$/s;

export function readPartitionField(entry: string): PartitionField {
  const [, word, column = ''] = partForm.exec(entry) ?? [];
  const part = dateParts.find((each) => each === word);
  return part ? { column, part, name: part } : { column: entry, part: null, name: entry };
}

/** Describes the faults of the entries by themselves, as sentences for their owner. */
export function checkPartitionEntries(entries: readonly string[]): readonly string[] {
  const names = new Set<string>();
  return entries.flatMap((entry) => {
    const shown = JSON.stringify(entry);
    const [, word] = partForm.exec(entry) ?? [];
    const { name } = readPartitionField(entry);
    if (word !== undefined && !dateParts.some((part) => part === word)) {
      const nearest = nearestName(word, dateParts, 3);
      const hint = nearest === null ? '' : ` Did you mean ${nearest}?`;
      return [
        `${shown}: unknown date part ${word}.${hint} Use a column, or one of year, month, day and hour of a column, such as day(inserted_at).`,
      ];
    }
    const folder = Buffer.byteLength(escapeValue(name));
    if (folder > maxFolderBytes / 2) {
      return [`${shown}: the name of the folder is too long. Rename the column in dsl_query.`];
    }
    // Readers ignore case in the names of columns.
    if (names.has(name.toLowerCase())) {
      return [
        `${shown}: two entries would have folders named ${name}=. Leave one out, or rename a column in dsl_query.`,
      ];
    }
    names.add(name.toLowerCase());
    return [];
  });
}

type Typed = Pick<Column, 'name' | 'sourceType'>;

const isDate = ({ sourceType }: Typed) => sourceType === 'date';
const isTime = ({ sourceType }: Typed) => /^timestamp(?:\(\d\))? /.test(sourceType);

/** Why the rows cannot be divided so, for the export's owner; null if they can. */
export function findPartitionFault(
  entries: readonly string[],
  columns: readonly Typed[],
): string | null {
  const names = columns.map(({ name }) => name);
  const faults = entries.map(readPartitionField).flatMap(({ column, part, name }) => {
    const match = columns.find((each) => each.name === column);
    if (!match) {
      const nearest = nearestName(column, names, 3);
      return [
        `the rows have no column ${column}${nearest === null ? '' : ` (did you mean ${nearest}?)`}`,
      ];
    }
    // Readers ignore case in the names of columns.
    const twin = names.find(
      (each) => each.toLowerCase() === name.toLowerCase() && (part !== null || each !== column),
    );
    const isTaken =
      twin === undefined
        ? []
        : [
            `the rows have a column ${twin}, and readers would take the folders ${name}= for it. Rename the column in dsl_query`,
          ];
    if (part === null) return isTaken;
    if (part === 'hour' && isDate(match)) return [`${column} is a date, which has no hour`];
    if (!isDate(match) && !isTime(match)) {
      return [`${column} is ${match.sourceType}, and only a date or a timestamp has a ${part}`];
    }
    return isTaken;
  });
  if (faults.length === 0) return null;
  return `${faults.join('; ')}. Columns of the rows: ${names.slice(0, 100).join(', ')}`;
}

/**
 * Those that Hive and Spark escape; `<`, `>`, `|`, `}`, backticks and `~`, which stores advise against; dots beside each other,
 * and blanks and dots at the ends, which file systems change; and what no key may have.
 */
const escapedCharacters = new RegExp(
  `[\\0-\\x1f"#%'*/:=?\\\\\\x7f{}[\\]^<>|\`~]|\\.(?=\\.)|(?<=\\.)\\.|^[ .]|[ .]$|${refusedCharacters.source}`,
  'gu',
);

/** From the sign to the end of a folder. In an address the sign and each byte may be escaped. */
const folderValue = /(=|%3D)[^"#'*/:=?\\{}[\]^<>|`~\p{Cc}]{0,600}(?=\/)/giu;

/** `event=…/day=…/`: texts and signatures that stay must pass it, so that no value of an erased person stays in them. */
export const hideFolders = (text: string): string => text.replace(folderValue, '$1…');

/** Writes characters that keys cannot have as the bytes of their UTF-8: `%2F`. All readers of the layout undo it. */
export function escapeValue(text: string): string {
  return text.replace(escapedCharacters, (character) =>
    [...Buffer.from(character)]
      .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
  );
}
