import { Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { listUsage } from '../../../state/store/tenants/usage.ts';
import type { Api } from '../api.ts';
import { offsetEnvelope } from '../lists/paging.ts';
import { OffsetPageOf } from '../lists/schema.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';
import { firstDayOf, MonthQuery, monthPageOf, sendCsv } from '../usage/month.ts';
import { operation, Search } from './tenants.ts';

const Count = Type.Integer({ minimum: 0 });

export const Usage = named(
  'Usage',
  Type.Object({
    month: Type.String({ description: 'Such as `2024-03`, in UTC.' }),
    id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    disabled_at: Nullable({ ...Time, description: 'Null: it is enabled.' }),
    projects: Count,
    exports: { ...Count, description: 'Exports that are not deleted.' },
    rows: { ...Count, description: 'Rows in the current files of the intervals of the month.' },
    bytes: { ...Count, description: 'Bytes of these files.' },
  }),
);

const columns = ['month', 'id', 'name', 'disabled_at', 'projects', 'exports', 'rows', 'bytes'];

/** The exports of each customer, and the rows and bytes that were exported in a month. */
export function usageRoutes(api: Api): void {
  api.get(
    '/usage',
    operation(
      'operator:read',
      'listUsage',
      'List the customers with their rows and bytes of a month',
      {
        querystring: Type.Object({ ...MonthQuery, search: Search }),
        response: { 200: OffsetPageOf(Usage) },
      },
    ),
    async (request, reply) => {
      const page = monthPageOf(request.query);
      const { search = null, format } = request.query;
      const first = firstDayOf(request.query);
      const usagePage = await listUsage(request.context.db, first, search, page);
      if (format !== 'csv') return offsetEnvelope(request, page, usagePage, inSnakeCase);
      return sendCsv(reply, columns, usagePage.results.map(inSnakeCase));
    },
  );
}
