import type { ReactNode } from 'react';
import type { BatchExport, Coverage } from '../api-types.ts';
import { useConsole, useResource } from '../use-api.ts';
import { stateLooks } from '../coverage-grid.ts';
import { formatCount, plural } from '../numbers.ts';
import { Empty, Pending } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { ScrolledTable } from '../parts/tables.tsx';
import { IntervalText, TimeText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { useQuery } from '../use-route.ts';

type Delivered = NonNullable<Coverage['elements']>[number];
type Range = Coverage['ranges'][number];

const heads = {
  changes: ['Element', 'Interval', 'Rows', 'Deletes', 'What it has', 'Followed by'],
  snapshot: ['Interval', 'Taken at', 'Rows', 'What it has'],
};

/** Elements or snapshots, newest first, and the intervals without data: an export that has no past has no grid of intervals. */
export function ElementsTab({ batchExport: { id, mode } }: { readonly batchExport: BatchExport }) {
  const { query, setQuery } = useQuery();
  const to = query.get('to');
  const { data, failure, reload } = useCoverage({ id, ...(to !== null && { to }) });
  const elements = data?.elements ?? [];
  const oldest = elements.length < pageSize ? null : (elements.at(-1)?.start ?? null);
  const kind = mode === 'changes' ? 'changes' : 'snapshot';
  const cellsOf = { changes: cellsOfElement, snapshot: cellsOfSnapshot }[kind];
  const rows = [
    ...elements.map((one) => ({
      start: one.start,
      row: <Row key={one.start} cells={cellsOf(one, <RunLink exportId={id} delivered={one} />)} />,
    })),
    ...(data?.ranges ?? [])
      .filter((range) => isOpen(range, oldest))
      .map((range) => ({
        start: range.start,
        row: <OpenRow key={range.start} range={range} isNumbered={kind === 'changes'} />,
      })),
  ].toSorted((a, b) => b.start.localeCompare(a.start));
  const turnTo = (end: string | null) => () => setQuery({ to: end });
  return (
    <section aria-label="Coverage of the export">
      <Pending {...{ data, failure, reload }} lines={8} />
      {data && rows.length === 0 && (
        <Empty title={kind === 'changes' ? 'No elements yet' : 'No snapshots yet'}>
          <p>The first one has all rows.</p>
        </Empty>
      )}
      {rows.length > 0 && (
        <ScrolledTable
          className="scroll"
          label={kind === 'changes' ? 'List of elements' : 'List of snapshots'}
          heads={heads[kind]}
        >
          {rows.map(({ row }) => row)}
        </ScrolledTable>
      )}
      <Pager
        onNewer={to === null ? null : turnTo(null)}
        onOlder={oldest === null ? null : turnTo(oldest)}
      />
    </section>
  );
}

const pageSize = 100;

export function useCoverage(page: { id: string; from?: string; to?: string }) {
  const { api } = useConsole();
  return useResource({
    key: JSON.stringify(page),
    load: (signal) => api.get('batch_exports/{id}/coverage', page, signal),
    pollMs: (data) => (data?.ranges.some(isLive) ? 3_000 : 15_000),
  });
}

const isLive = ({ state }: Range): boolean => state === 'running' || state === 'retrying';

/** Says whether no row of a delivery shows these intervals. */
const isOpen = ({ state, end }: Range, oldest: string | null): boolean =>
  !['done', 'unsettled', 'superseded', 'never_asked'].includes(state) &&
  (oldest === null || end > oldest);

interface LinkProps {
  readonly exportId: string;
  readonly delivered: Delivered;
}

const RunLink = ({ exportId, delivered: { run_id: runId, start, end } }: LinkProps) => (
  <a href={hrefOf({ page: 'run', exportId, runId })}>
    <IntervalText start={start} end={end} />
  </a>
);

function Row({ cells: [first, ...cells] }: { readonly cells: readonly ReactNode[] }) {
  return (
    <tr>
      <th scope="row">{first}</th>
      {cells.map((cell, column) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: columns never change their order.
        <td key={column}>{cell}</td>
      ))}
    </tr>
  );
}

function cellsOfElement(one: Delivered, link: ReactNode): readonly ReactNode[] {
  const { element, rows, followed_by: next, superseded } = one;
  const what =
    element && element.base !== null
      ? `All rows: a new base, because ${element.base}.`
      : `What changed since ${element?.follows}, from version ${element?.from_version}.`;
  const follower = next ?? <span className="muted">none yet</span>;
  const deletes = formatCount(element?.deletes ?? 0);
  return [element?.number, link, formatCount(rows), deletes, withPast(what, superseded), follower];
}

function cellsOfSnapshot(one: Delivered, link: ReactNode): readonly ReactNode[] {
  const { rows, snapshot_at: at, superseded } = one;
  const what = at === null ? 'Nothing more: keep_snapshots has removed it.' : 'All rows.';
  const taken = at !== null && <TimeText at={at} />;
  return [link, taken, formatCount(rows), withPast(what, superseded)];
}

/** Adds the intervals in whose place a delivery is. */
function withPast(what: string, superseded: Delivered['superseded']): ReactNode {
  if (superseded === null) return what;
  return (
    <>
      {what}
      <small className="muted">
        {' '}
        In place of {plural(superseded.intervals, 'interval')} that{' '}
        {superseded.intervals === 1 ? 'was' : 'were'} never made:{' '}
        <IntervalText start={superseded.start} end={superseded.end} />
      </small>
    </>
  );
}

function OpenRow({ range, isNumbered }: { readonly range: Range; readonly isNumbered: boolean }) {
  const { start, end, state, intervals } = range;
  const [glyph, name] = stateLooks[state];
  return (
    <tr>
      {isNumbered && <td />}
      <th scope="row">
        <IntervalText start={start} end={end} />
      </th>
      <td colSpan={isNumbered ? 4 : 3}>
        <span className={`sign state-${state}`} aria-hidden="true">
          {glyph}
        </span>{' '}
        {plural(intervals, 'interval')} {name}
      </td>
    </tr>
  );
}
