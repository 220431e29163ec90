import type { DataInterval } from '../../../foundation/domain/time.ts';
import { queryRows } from '../database/statement.ts';
import { boundLists, instantOf } from '../database/times.ts';
import { live } from '../runs/run-moves.ts';

/** The tables with intervals that were decided, the strongest first: what is current, what runs, what was due. */
const facts = [
  'receipts',
  `runs where status in ${live}`,
  'ticks',
  'accepted_intervals',
  'runs where finished_at is not null',
  'holes',
];

const ofFacts = facts
  .map((table, rank) => {
    const [name, condition = 'true'] = table.split(' where ');
    return `select ${rank} as rank, f.data_interval_start, f.data_interval_end from spans s, ${name} f
             where f.export_id = $1 and f.data_interval_start >= s.span_start and f.data_interval_start < s.span_end and ${condition}`;
  })
  .join(' union all ');

/** Those that start in one of the spans, each once, the strongest first, then oldest first. */
export const findDecidedIntervals = queryRows<
  DataInterval,
  [exportId: string, spans: readonly DataInterval[]]
>(
  `with spans as materialized (
       select * from unnest($2::timestamptz[], $3::timestamptz[]) as s (span_start, span_end)
     )
     select ${instantOf('data_interval_start')} as start, ${instantOf('data_interval_end')} as "end"
       from (${ofFacts}) as decided group by data_interval_start, data_interval_end
      order by min(rank), data_interval_start`,
  (exportId, spans) => [exportId, ...boundLists(spans)],
);
