import { Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { listUsage } from '../../../state/store/tenants/usage.ts';
import type { Api } from '../api.ts';
import { offsetEnvelope, pageOf } from '../lists/paging.ts';
import { OffsetPageOf, PageQuery } from '../lists/schema.ts';
import { errors } from '../schemas/error.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';
import { operation, Search } from './tenants.ts';

const Count = Type.Integer({ minimum: 0 });

export const Usage = named(
  'Usage',
  Type.Object({
    id: Type.String({ format: 'uuid' }),
    name: Type.String(),
    disabled_at: Nullable({ ...Time, description: 'Null: it is enabled.' }),
    projects: Count,
    exports: { ...Count, description: 'Exports that are not deleted.' },
    rows: { ...Count, description: 'Rows in the current files of the intervals of the month.' },
    bytes: { ...Count, description: 'Bytes of these files.' },
  }),
);

/** What each customer has, and how much of it was exported in a month. */
export function usageRoutes(api: Api): void {
  api.get(
    '/usage',
    operation(
      'operator:read',
      'listUsage',
      'List the customers with their rows and bytes of a month',
      {
        querystring: Type.Object({
          ...PageQuery,
          search: Search,
          month: Type.Optional(
            Type.String({
              pattern: '^[1-9]\\d{3}-(0[1-9]|1[0-2])$',
              description:
                'Such as `2024-03`: intervals that begin in this month, in UTC. Default: the present month.',
            }),
          ),
        }),
        response: { 200: OffsetPageOf(Usage), ...errors() },
      },
    ),
    async (request) => {
      const page = pageOf(request.query);
      const { search = null, month } = request.query;
      const first = month === undefined ? null : `${month}-01`;
      const found = await listUsage(request.context.db, first, search, page);
      return offsetEnvelope(request, page, found, inSnakeCase);
    },
  );
}
