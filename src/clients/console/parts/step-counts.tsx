import type { StepCount } from '../api-types.ts';
import { formatCount } from '../numbers.ts';
import { hrefOf } from '../route.ts';
import { Heads } from './scrolled-table.tsx';

const columns = ['In', 'Out', 'Dropped', 'Rejected', 'Errors', 'Time'];

/** The rows of each step of the chain in a run. */
export function StepCounts({ steps }: { readonly steps: readonly StepCount[] }) {
  return (
    <table className="card runs" aria-label="Rows of each step">
      <Heads names={['Step']} numbers={columns} />
      <tbody>
        {steps.map((count) => (
          <CountRow key={count.config} count={count} />
        ))}
      </tbody>
    </table>
  );
}

function CountRow({ count }: { readonly count: StepCount }) {
  const { config, in: rows, out, dropped, errored, time_ms: timeMs, error } = count;
  // Rows that neither went on nor were dropped went to the rejected file.
  const counts = [rows, out, dropped, rows - out - dropped, errored].map(formatCount);
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf({ page: 'step', stepId: config })}>Step {config}</a>
        {error !== null && <small className="bad-text"> {error}</small>}
      </th>
      {[...counts, `${formatCount(timeMs)} ms`].map((value, index) => (
        <td key={columns[index]} className="number" data-label={columns[index]}>
          {value}
        </td>
      ))}
    </tr>
  );
}
