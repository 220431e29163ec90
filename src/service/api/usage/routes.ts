import { Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { listExportUsage } from '../../../state/store/tenants/usage.ts';
import { type Api, reachOf } from '../api.ts';
import { offsetEnvelope } from '../lists/paging.ts';
import { OffsetPageOf } from '../lists/schema.ts';
import { exportOperations, type Family } from '../operations.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';
import { firstDayOf, MonthQuery, monthPageOf, sendCsv } from './month.ts';

const Count = Type.Integer({ minimum: 0 });

const ExportUsage = named(
  'ExportUsage',
  Type.Object({
    month: Type.String({ description: 'Such as `2024-03`, in UTC.' }),
    project_id: Type.Integer(),
    id: Type.String({ format: 'uuid', description: 'The export.' }),
    name: Type.String(),
    deleted_at: Nullable({ ...Time, description: 'Null: it is not deleted.' }),
    intervals: { ...Count, description: 'Intervals that begin in the month and were delivered.' },
    rows: { ...Count, description: 'Rows in the current files of these intervals.' },
    bytes: { ...Count, description: 'Bytes of these files.' },
  }),
);

const columns = [
  ...['month', 'project_id', 'id', 'name', 'deleted_at', 'intervals', 'rows', 'bytes'],
];

/** The rows and bytes of a month, by export, for the customer. */
export function exportUsageRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);
  api.get(
    '',
    read('listExportUsage', 'List the exports with their rows and bytes of a month', [], {
      querystring: Type.Object(MonthQuery),
      response: { 200: OffsetPageOf(ExportUsage) },
    }),
    async (request, reply) => {
      const page = monthPageOf(request.query);
      const { db } = request.context;
      const usagePage = await listExportUsage(
        db,
        reachOf(request),
        firstDayOf(request.query),
        page,
      );
      if (request.query.format !== 'csv')
        return offsetEnvelope(request, page, usagePage, inSnakeCase);
      return sendCsv(reply, columns, usagePage.results.map(inSnakeCase));
    },
  );
}
