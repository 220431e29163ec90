import type { BatchExport, Run, Step, StepCount } from '../api-types.ts';
import { formatCount } from '../numbers.ts';
import { hrefOf } from '../route.ts';
import { rejectedBy } from '../step-counts.ts';
import { Heads } from './scrolled-table.tsx';
import { StatusBadge } from './status.tsx';
import { IntervalText } from './time-text.tsx';

export interface CountedRun {
  readonly run: Run;
  readonly batchExport: BatchExport;
}

interface Props {
  readonly counted: readonly CountedRun[];
  readonly steps: readonly Step[];
}

const columns = ['In', 'Out', 'Dropped', 'Rejected', 'Errors', 'Time'];

/** The rows of each step in some runs. */
export function StepCounts({ counted, steps }: Props) {
  const names = new Map(steps.map(({ id, name }) => [id, name ?? `Step ${id}`]));
  return (
    <table className="card runs counts" aria-label="Rows of each step in the last runs">
      <Heads names={['Run and steps']} numbers={columns} />
      {counted.map(({ run, batchExport }) => (
        <tbody key={run.id}>
          <tr>
            <th scope="rowgroup" colSpan={columns.length + 1}>
              <span className="row">
                <a href={hrefOf({ page: 'run', exportId: batchExport.id, runId: run.id })}>
                  {batchExport.name}{' '}
                  <IntervalText start={run.data_interval_start} end={run.data_interval_end} />
                </a>
                <StatusBadge status={run.status} />
              </span>
            </th>
          </tr>
          {run.steps?.map((count) => (
            <CountRow
              key={count.config}
              count={count}
              name={names.get(count.config) ?? `Deleted step ${count.config}`}
            />
          ))}
        </tbody>
      ))}
    </table>
  );
}

function CountRow({ count, name }: { count: StepCount; name: string }) {
  const { in: rows, out, dropped, errored, time_ms: timeMs } = count;
  const counts = [rows, out, dropped, rejectedBy(count), errored].map(formatCount);
  const values = [...counts, `${formatCount(timeMs)} ms`];
  return (
    <tr>
      <th scope="row">
        {name}
        {count.error !== null && <small className="bad-text"> {count.error}</small>}
      </th>
      {values.map((value, index) => (
        <td key={columns[index]} className="number" data-label={columns[index]}>
          {value}
        </td>
      ))}
    </tr>
  );
}
