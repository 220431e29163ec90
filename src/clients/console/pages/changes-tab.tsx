import type { Activity, BatchExport } from '../api-types.ts';
import { type ChangeLine, changeLines } from '../change-lines.ts';
import { useConsole, useResource } from '../use-api.ts';
import { Empty, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { Heads } from '../parts/tables.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { offsetOf, useQuery } from '../use-route.ts';

const pageSize = 20;

/** Every change of an export: who made it, and each setting before and after. */
export function ChangesTab({ batchExport }: { batchExport: BatchExport }) {
  const { api } = useConsole();
  const { query } = useQuery();
  const { id, last_updated_at: since } = batchExport;
  const offset = offsetOf(query);
  const { data, failure, reload } = useResource({
    key: `${id} ${since} ${offset}`,
    load: (signal) =>
      api.get('batch_exports/{id}/activity', { id, limit: pageSize, offset }, signal),
    pollMs: () => 15_000,
  });
  return (
    <section aria-label="Changes">
      <Pending {...{ data, failure, reload }} lines={6} />
      {data?.results.length === 0 && <Empty title="No changes" />}
      <ol className="stack">
        {data?.results.map((activity) => (
          <ChangeItem key={activity.id} activity={activity} />
        ))}
      </ol>
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </section>
  );
}

function ChangeItem({ activity }: { activity: Activity }) {
  const { id, action, key_name: key, happened_at: at, changes } = activity;
  const lines = changeLines(changes);
  return (
    <li className="card change">
      <div className="row">
        <h2>{action}</h2>
        <span className="muted small">
          <TimeText at={at} /> · {key === null ? 'by Sluice or the command line' : `by key ${key}`}
        </span>
      </div>
      {lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
        <section className="scroll small" aria-label={`${action}, change ${id}`} tabIndex={0}>
          <table className="changes">
            <Heads names={['Setting', 'Before', 'After']} />
            <tbody>
              {lines.map((line) => (
                <ChangeRow key={line.field} line={line} />
              ))}
            </tbody>
          </table>
        </section>
      )}
    </li>
  );
}

function ChangeRow({ line: { field, before, after, isSecret } }: { line: ChangeLine }) {
  return (
    <tr>
      <th scope="row">{field}</th>
      {isSecret ? (
        <td colSpan={2}>{secretChange(before, after)}</td>
      ) : (
        <>
          <td>
            <Value text={before} />
          </td>
          <td>
            <Value text={after} />
          </td>
        </>
      )}
    </tr>
  );
}

function secretChange(before: string | null, after: string | null): string {
  if (before === null) return 'set';
  return after === null ? 'removed' : 'changed';
}

function Value({ text }: { text: string | null }) {
  if (text === null) return <span className="muted">not set</span>;
  return <span className="value">{text}</span>;
}
