import type { BatchExport, DeliveryRecord } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { plural } from '../numbers.ts';
import { useAction } from '../use-action.ts';
import { saveFile } from '../save-file.ts';
import { useResource } from '../use-resource.ts';
import { Failure } from './notice.tsx';
import { ScrolledTable } from './scrolled-table.tsx';
import { IntervalText, TimeText } from './time-text.tsx';

const window = '30d';

/** Late intervals that the page names, the newest; the file has all. */
const shownLate = 20;

const turnNames = {
  ours: 'the operator of Sluice',
  source: 'the owner of the source',
  customer: 'the owner of the export',
} as const;

/** The record of the deadlines of a month, with a file that a customer can be sent. Nothing without a deadline. */
export function DeliveryOfMonth({ batchExport }: { readonly batchExport: BatchExport }) {
  const { deadline_minutes: minutes, deadline_at: at } = batchExport;
  return minutes === null && at === null ? null : <Record batchExport={batchExport} />;
}

function Record({ batchExport: { id, name } }: { readonly batchExport: BatchExport }) {
  const { api } = useConsole();
  const { data, failure, reload } = useResource({
    key: id,
    load: (signal) => api.get('batch_exports/{id}/delivery', { id, window }, signal),
    pollMs: () => 60_000,
  });
  const save = useAction(async () => {
    const csv = await api.get('batch_exports/{id}/delivery', { id, window, format: 'csv' });
    saveFile(`delivery of ${name}.csv`, String(csv), 'text/csv');
  });
  return (
    <section aria-label="Deadlines of the last 30 days">
      <div className="row">
        <h2>Deadlines of the last 30 days</h2>
        <button
          type="button"
          className="last"
          onClick={() => void save.run()}
          aria-disabled={save.busy}
        >
          Save as CSV
        </button>
      </div>
      <Failure failure={failure ?? save.failure} onRetry={reload} stale={data !== null} />
      {data && <Summary record={data} />}
      {data && data.late.length > 0 && <Late record={data} />}
    </section>
  );
}

function Summary({ record }: { readonly record: DeliveryRecord }) {
  const { met, missed, at_risk: risk, pending, share_met: share, budget, target } = record;
  const share100 = share === null ? 'none has passed yet' : `${(share * 100).toFixed(2)}%`;
  return (
    <p>
      <strong>Met: {share100}</strong> ({plural(met, 'deadline')} met, {missed} missed, {risk} at
      risk, {pending} open). Of the {budget.allowed} that may be missed at {target}%,{' '}
      <span className={budget.left < 0 ? 'warn-text' : 'good-text'}>{budget.left} are left</span>.
    </p>
  );
}

function Late({ record: { late } }: { readonly record: DeliveryRecord }) {
  return (
    <ScrolledTable
      className="scroll"
      label="Late intervals"
      heads={['Interval', 'Due', 'Delivered', 'Cause', 'Turn']}
    >
      {late
        .slice(-shownLate)
        .toReversed()
        .map((one) => (
          <tr key={one.data_interval_start}>
            <td>
              <IntervalText start={one.data_interval_start} end={one.data_interval_end} />
            </td>
            <td>
              <TimeText at={one.due_by} />
            </td>
            <td>
              {one.delivered_at === null ? (
                <span className="warn-text">
                  {one.outcome === 'at_risk' ? 'at risk' : 'not yet'}
                </span>
              ) : (
                <TimeText at={one.delivered_at} />
              )}
            </td>
            <td>{one.code ?? 'no attempt failed'}</td>
            <td>{one.turn === null ? '' : turnNames[one.turn]}</td>
          </tr>
        ))}
    </ScrolledTable>
  );
}
