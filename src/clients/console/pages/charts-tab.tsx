import { useMemo, useState } from 'react';
import type { IntervalThroughput } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { Choice } from '../form/choice.tsx';
import { useNow } from '../now.ts';
import { plural } from '../numbers.ts';
import { Chart } from '../parts/chart.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { ScrolledTable } from '../parts/scrolled-table.tsx';
import { IntervalText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { columnsOf, describePoint, measures, summarise } from '../throughput.ts';
import { useResource } from '../use-resource.ts';
import { useTimes } from '../use-times.ts';

const counts = ['50', '200', '500'] as const;
type Count = (typeof counts)[number];

/** Rows, bytes and run duration of an export, interval by interval. */
export function ChartsTab({ exportId }: { exportId: string }) {
  const { api } = useConsole();
  const [count, setCount] = useState<Count>('200');
  /** The bounds of the pages that were left for older ones; null: the newest. */
  const [bounds, setBounds] = useState<readonly string[]>([]);
  const before = bounds.at(-1) ?? null;
  const { data, failure, reload } = useResource({
    key: `${exportId} ${count} ${before}`,
    load: (signal) =>
      api.get(
        'batch_exports/{id}/throughput',
        { id: exportId, before, limit: Number(count) },
        signal,
      ),
    pollMs: () => (before === null ? 30_000 : null),
  });
  const points = data?.results;
  const first = points?.[0]?.data_interval_start;
  const isFull = points?.length === Number(count);
  const times = useTimes();
  const last = points?.at(-1)?.data_interval_end;
  const zones = first === undefined || last === undefined ? '' : times.zones(first, last);
  return (
    <section aria-label="Charts">
      <Pending {...{ data, failure, reload }} lines={8} />
      {points?.length === 0 && (
        <Empty title="No interval is exported yet">
          <p>Charts begin with the first completed run.</p>
        </Empty>
      )}
      {points && points.length > 0 && (
        <>
          <div className="chart-range">
            <Choice
              attr="chart-count"
              label="Intervals"
              value={count}
              choices={counts.map((value) => [value, value])}
              onChange={(value) => {
                setCount(value);
                setBounds([]);
              }}
            />
            <small className="muted">{`Times of the axes: ${zones}`}</small>
          </div>
          <Charts key={`${first} ${points.length}`} exportId={exportId} points={points} />
        </>
      )}
      <Pager
        onNewer={before === null ? null : () => setBounds(bounds.slice(0, -1))}
        onOlder={isFull && first !== undefined ? () => setBounds([...bounds, first]) : null}
      />
    </section>
  );
}

interface PartProps {
  readonly exportId: string;
  readonly points: readonly IntervalThroughput[];
}

function Charts({ exportId, points }: PartProps) {
  const now = useNow();
  const times = useTimes();
  const [selected, setSelected] = useState(points.length - 1);
  const columns = useMemo(() => measures.map((measure) => columnsOf(measure, points)), [points]);
  const point = points[selected];
  if (!point) return null;
  const { data_interval_start: start, data_interval_end: end } = point;
  return (
    <div className="card panel">
      {measures.map((measure, index) => (
        <figure key={measure.name} className="chart">
          <figcaption>
            <strong>{measure.name}</strong>{' '}
            <small className="muted">{summarise(measure, points)}</small>
          </figcaption>
          <Chart
            columns={columns[index] ?? [[], []]}
            step={secondsOf(points.at(-1))}
            format={measure.format}
            label={`${measure.name} of ${plural(points.length, 'interval')}: ${summarise(measure, points)}`}
            selected={selected}
            onSelect={setSelected}
          />
        </figure>
      ))}
      <label className="chart-point">
        <span>Interval</span>
        <input
          type="range"
          min={0}
          max={points.length - 1}
          value={selected}
          aria-valuetext={`${times.interval(start, end, now)}: ${describePoint(point)}`}
          onChange={(event) => setSelected(Number(event.target.value))}
        />
      </label>
      <p>
        <IntervalText start={start} end={end} />: {describePoint(point)}.{' '}
        <a href={hrefOf({ page: 'run', exportId, runId: point.run_id })}>Open its run</a>
      </p>
      <details>
        <summary>Show as a table</summary>
        <ThroughputTable exportId={exportId} points={points} />
      </details>
    </div>
  );
}

function ThroughputTable({ exportId, points }: PartProps) {
  return (
    <ScrolledTable
      label="Rows, size and duration as a table"
      heads={['Interval', ...measures.map(({ name }) => name)]}
    >
      {points.toReversed().map((point) => (
        <tr key={`${point.data_interval_start} ${point.data_interval_end}`}>
          <th scope="row">
            <a href={hrefOf({ page: 'run', exportId, runId: point.run_id })}>
              <IntervalText start={point.data_interval_start} end={point.data_interval_end} />
            </a>
          </th>
          {measures.map(({ name, read, format }) => {
            const value = read(point);
            return <td key={name}>{value === null ? '–' : format(value)}</td>;
          })}
        </tr>
      ))}
    </ScrolledTable>
  );
}

function secondsOf(point: IntervalThroughput | undefined): number {
  if (!point) return 0;
  return (Date.parse(point.data_interval_end) - Date.parse(point.data_interval_start)) / 1_000;
}
