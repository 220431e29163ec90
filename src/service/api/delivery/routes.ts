import { toTimestamp, toTimestampOrNull } from '../../../foundation/domain/time.ts';
import {
  type DeliveryRecord as Judged,
  type JudgedInterval,
  readDelivery,
  readWindow,
} from '../../use-cases/deadlines/read-delivery.ts';
import { type Api, batchExportOf } from '../api.ts';
import { exportOperations, type Family } from '../operations.ts';
import { errors } from '../schemas/error.ts';
import { Ref } from '../schemas/shapes.ts';
import { DeliveryQuery, DeliveryRecord } from './schema.ts';

/** Late intervals of a JSON answer. */
const maxLate = 1_000;

/** The record of an export's deadlines, which a customer can be sent. */
export function deliveryRoutes(api: Api, family: Family): void {
  const { read } = exportOperations(family);
  api.get(
    '/:id/delivery',
    read('retrieveDelivery', 'Retrieve what became of the deadlines', ['id'], {
      querystring: DeliveryQuery,
      response: { 200: Ref(DeliveryRecord), ...errors() },
    }),
    async (request, reply) => {
      const { window = '30d', target = 99, format = 'json' } = request.query;
      const batchExport = batchExportOf(request);
      const record = await readDelivery(request.context, batchExport, readWindow(window), target);
      if (format === 'json') return deliveryView(record);
      const name = `delivery-${batchExport.id}.csv`;
      reply.header('content-disposition', `attachment; filename="${name}"`);
      return reply
        .type('text/csv; charset=utf-8')
        .serializer((text) => String(text))
        .send(csvOf(record) as never);
    },
  );
}

function deliveryView({
  range,
  isCut,
  targetPercent,
  counts,
  budget,
  intervals,
}: Judged): DeliveryRecord {
  const late = intervals.filter(({ outcome }) => outcome === 'missed' || outcome === 'at_risk');
  return {
    from: toTimestamp(range.start),
    to: toTimestamp(range.end),
    is_cut: isCut,
    target: targetPercent,
    ...counts,
    share_met: budget.shareMet,
    budget: { allowed: budget.allowed, left: budget.left },
    late: late.slice(-maxLate).map(intervalView),
  };
}

function intervalView({ interval, dueBy, deliveredAt, outcome, code, turn }: JudgedInterval) {
  return {
    data_interval_start: toTimestamp(interval.start),
    data_interval_end: toTimestamp(interval.end),
    due_by: toTimestamp(dueBy),
    delivered_at: toTimestampOrNull(deliveredAt),
    outcome,
    code,
    turn,
  };
}

/** No value needs quotes: times, and words of our own. */
function csvOf({ intervals }: Judged): string {
  const header = 'data_interval_start,data_interval_end,due_by,delivered_at,outcome,code,turn';
  const lines = intervals.map((one) =>
    Object.values(intervalView(one))
      .map((value) => value ?? '')
      .join(','),
  );
  return `${[header, ...lines].join('\r\n')}\r\n`;
}
