import { createHash } from 'node:crypto';
import {
  type DatePart,
  dateParts,
  escapeValue,
  maxFolderBytes,
  type PartitionField,
} from '../../foundation/domain/partition.ts';
import { textOfJson } from '../../foundation/domain/row-block.ts';

/** For null and the empty text: Hive cannot tell them apart. */
const defaultPartition = '__HIVE_DEFAULT_PARTITION__';

/** The part that remains of a longer value, in front of its digest. */
const keptBytes = 60;

/** The folder of a value, `event=signup`. @param json the value as JSON Lines has it; null for null */
export function partitionFolder({ name, part }: PartitionField, json: string | null): string {
  const text = json === null ? null : textOfJson(json);
  const value = text === null || part === null ? text : cutDate(text, part);
  const head = `${escapeValue(name)}=`;
  if (value === null || value === '') return `${head}${defaultPartition}`;
  return folderOf(head, value);
}

function folderOf(head: string, value: string): string {
  const escaped = escapeValue(value);
  if (Buffer.byteLength(head) + Buffer.byteLength(escaped) <= maxFolderBytes) return head + escaped;
  const digest = createHash('sha256').update(value).digest('hex').slice(0, 32);
  return `${head}${shorten(escaped)}-${digest}`;
}

/** Says whether a key has a folder that is named after a value, of whatever column. */
export function isNamedAfter(key: string, value: string): boolean {
  const folders = key.split('/').slice(0, -1);
  return folders.some((folder) => {
    const head = folder.slice(0, folder.indexOf('=') + 1);
    return value !== '' && head !== '' && folder === folderOf(head, value);
  });
}

/** `2026-11-25` of `2026-11-25T13:00:00.000000Z`; infinity stays, and so does `BC`. */
function cutDate(text: string, part: DatePart): string {
  const [, year, month, day, hour] = /^(\d{4,})-(\d\d)-(\d\d)(?:T(\d\d))?/.exec(text) ?? [];
  if (year === undefined) return text;
  const parts = [year, month, day, hour].slice(0, dateParts.indexOf(part) + 1);
  return parts.join('-') + (text.endsWith(' BC') ? ' BC' : '');
}

/** The first characters, none of them cut in two. */
function shorten(escaped: string): string {
  let prefix = '';
  for (const [piece] of escaped.matchAll(/(?:%[0-9A-F]{2})+|[^%]/gu)) {
    if (Buffer.byteLength(prefix) + Buffer.byteLength(piece) > keptBytes) break;
    prefix += piece;
  }
  return prefix;
}
