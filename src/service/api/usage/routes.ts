import { type TProperties, Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import type { OffsetPage, PageRequest } from '../../../state/store/database/lists.ts';
import { listExportUsage, listUsage } from '../../../state/store/tenants/usage.ts';
import { Search } from '../admin/tenants.ts';
import { type Api, type Reply, type Request, reachOf } from '../api.ts';
import { OffsetPageOf, offsetEnvelope, PageQuery, pageOf } from '../lists.ts';
import { exportOperations, type Family, operatorOperation } from '../operations.ts';
import { sendText } from '../replies.ts';
import { OptionalText, Resource, Text, TimeOrNull } from '../shapes.ts';

export const MonthQuery = {
  ...PageQuery,
  month: OptionalText({
    pattern: '^[1-9]\\d{3}-(0[1-9]|1[0-2])$',
    description:
      'Such as `2024-03`: intervals that begin in this month, in UTC. Default: the present month.',
  }),
  format: Type.Optional(
    Type.Enum(['json', 'csv'], {
      default: 'json',
      description: 'csv: one line for each result; all of them, unless `limit` is set.',
    }),
  ),
};

const Month = Text('Such as `2024-03`, in UTC.');
const Count = Type.Integer({ minimum: 0 });

const ExportUsage = Resource('ExportUsage', null, {
  month: Month,
  project_id: Type.Integer(),
  id: Type.String({ format: 'uuid', description: 'The export.' }),
  name: Type.String(),
  deleted_at: TimeOrNull('Null: it is not deleted.'),
  intervals: { ...Count, description: 'Intervals that begin in the month and were delivered.' },
  rows: { ...Count, description: 'Rows in the current files of these intervals.' },
  bytes: { ...Count, description: 'Bytes of these files.' },
});

export function exportUsageRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);
  api.get(
    '',
    read('listExportUsage', 'List the exports with their rows and bytes of a month', [], {
      querystring: Type.Object(MonthQuery),
      response: { 200: OffsetPageOf(ExportUsage) },
    }),
    (request, reply) =>
      answer(request, reply, ExportUsage.properties, (first, page) =>
        listExportUsage(request.context.db, reachOf(request), first, page),
      ),
  );
}

export const Usage = Resource('Usage', null, {
  month: Month,
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  disabled_at: TimeOrNull('Null: it is enabled.'),
  projects: Count,
  exports: { ...Count, description: 'Exports that are not deleted.' },
  rows: { ...Count, description: 'Rows in the current files of the intervals of the month.' },
  bytes: { ...Count, description: 'Bytes of these files.' },
});

export function usageRoutes(api: Api): void {
  const summary = 'List the customers with their rows and bytes of a month';
  api.get(
    '/usage',
    operatorOperation('operator:read', 'listUsage', summary, {
      querystring: Type.Object({ ...MonthQuery, search: Search }),
      response: { 200: OffsetPageOf(Usage) },
    }),
    (request, reply) =>
      answer(request, reply, Usage.properties, (first, page) =>
        listUsage(request.context.db, first, request.query.search ?? null, page),
      ),
  );
}

type Line = Readonly<Record<string, string | number | null>>;

interface Asked {
  readonly limit?: number;
  readonly offset?: number;
  readonly month?: string;
  readonly format?: 'json' | 'csv';
}

/** @param list gets the first day of the month; null: the present one */
async function answer<Item extends object>(
  request: Request & { readonly query: Asked },
  reply: Reply,
  columns: TProperties,
  list: (first: string | null, page: PageRequest) => Promise<OffsetPage<Item>>,
) {
  const { month, format, limit } = request.query;
  const isFile = format === 'csv';
  const usual = pageOf(request.query);
  const page = isFile && limit === undefined ? { ...usual, limit: Number.MAX_SAFE_INTEGER } : usual;
  const listed = await list(month === undefined ? null : `${month}-01`, page);
  if (!isFile) return offsetEnvelope(request, page, listed, inSnakeCase);
  return sendCsv(reply, Object.keys(columns), listed.results.map(inSnakeCase) as readonly Line[]);
}

function sendCsv(reply: Reply, columns: readonly string[], lines: readonly Line[]): never {
  const rows = lines.map((line) => columns.map((column) => cellOf(line[column] ?? '')).join(','));
  reply.header('content-disposition', 'attachment; filename="usage.csv"');
  return sendText(reply, 'text/csv', `${[columns.join(','), ...rows].join('\r\n')}\r\n`);
}

/** Names are what customers typed: a spreadsheet must not take one for a formula. */
function cellOf(value: string | number): string {
  const text = String(value);
  const guarded = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
