import { Type } from 'typebox';
import type { PageRequest } from '../../../state/store/database/lists.ts';
import type { Reply } from '../api.ts';
import { pageOf } from '../lists/paging.ts';
import { PageQuery } from '../lists/schema.ts';

/** The query of a list of what was exported in a month. */
export const MonthQuery = {
  ...PageQuery,
  month: Type.Optional(
    Type.String({
      pattern: '^[1-9]\\d{3}-(0[1-9]|1[0-2])$',
      description:
        'Such as `2024-03`: intervals that begin in this month, in UTC. Default: the present month.',
    }),
  ),
  format: Type.Optional(
    Type.Enum(['json', 'csv'], {
      default: 'json',
      description: 'csv: one line for each result; all of them, unless `limit` is set.',
    }),
  ),
};

interface Asked {
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
  readonly month?: string | undefined;
  readonly format?: 'json' | 'csv' | undefined;
}

/** The first day of the month; null: the present one. */
export const firstDayOf = ({ month }: Asked): string | null =>
  month === undefined ? null : `${month}-01`;

/** A file has all lines unless the request sets a limit. */
export function monthPageOf(asked: Asked): PageRequest {
  const page = pageOf(asked);
  const isWhole = asked.format === 'csv' && asked.limit === undefined;
  return isWhole ? { ...page, limit: Number.MAX_SAFE_INTEGER } : page;
}

type Line = Readonly<Record<string, string | number | null>>;

/** Sends lines as a file. `columns` are names of their values. */
export function sendCsv(reply: Reply, columns: readonly string[], lines: readonly Line[]): never {
  const rows = lines.map((line) => columns.map((column) => cellOf(line[column] ?? '')).join(','));
  reply.header('content-disposition', 'attachment; filename="usage.csv"');
  return reply
    .type('text/csv; charset=utf-8')
    .serializer((text) => String(text))
    .send(`${[columns.join(','), ...rows].join('\r\n')}\r\n`) as never;
}

/** Names are what customers typed: a spreadsheet must not take one for a formula. */
function cellOf(value: string | number): string {
  const text = String(value);
  const guarded = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
