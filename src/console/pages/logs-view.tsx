import { useEffect, useState } from 'react';
import { type LogEntry, type LogLevel, logLevels, type OffsetPage } from '../api-types.ts';
import { logPageSize } from '../client.ts';
import { useConsole } from '../console-context.ts';
import { FilterChips } from '../parts/filter-chips.tsx';
import { Empty, Failure, Loading } from '../parts/notice.tsx';
import { Pager } from '../parts/pager.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { useResource } from '../use-resource.ts';

interface Props {
  readonly exportId: string;
  /** Null for the export and all its runs. */
  readonly runId: string | null;
  /** Whether new entries are expected soon. */
  readonly live: boolean;
}

/** Log entries, newest first; polled while a run is live. */
export function LogsView({ exportId, runId, live }: Props) {
  const { client } = useConsole();
  const [levels, setLevels] = useState<readonly LogLevel[]>([]);
  const [search, setSearch] = useState('');
  const [offset, setOffset] = useState(0);
  const asked = useSettled(search);
  const { data, failure, reload } = useResource<OffsetPage<LogEntry>>({
    key: JSON.stringify([exportId, runId, levels, asked, offset]),
    load: (signal) => client.listLogs(exportId, { runId, levels, search: asked, offset }, signal),
    pollMs: () => (live ? 3_000 : runId === null ? 15_000 : null),
  });
  useReloadAtEnd(live, reload);
  return (
    <section aria-label="Logs">
      <div className="row filters">
        <FilterChips
          label="Levels"
          choices={logLevels}
          chosen={levels}
          onChange={(chosen) => {
            setLevels(chosen);
            setOffset(0);
          }}
        />
        <input
          type="search"
          aria-label="Search messages"
          placeholder="Search"
          maxLength={400}
          value={search}
          onChange={(event) => {
            setSearch(event.target.value);
            setOffset(0);
          }}
        />
        {live && <span className="live small">Live</span>}
      </div>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={6} />}
      {data?.results.length === 0 && <Empty title="No log entries" />}
      {data && data.results.length > 0 && (
        <LogLines entries={data.results} exportId={exportId} withRun={runId === null} />
      )}
      {data && (
        <Pager
          onNewer={offset > 0 ? () => setOffset(Math.max(0, offset - logPageSize)) : null}
          onOlder={data.next ? () => setOffset(offset + logPageSize) : null}
        />
      )}
    </section>
  );
}

interface LinesProps {
  readonly entries: readonly LogEntry[];
  readonly exportId: string;
  readonly withRun: boolean;
}

function LogLines({ entries, exportId, withRun }: LinesProps) {
  return (
    <ol className="card log small">
      {entries.map(({ timestamp, level, message, run_id }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries have no id, and may be alike.
        <li key={`${timestamp} ${index}`} className={`level-${level}`}>
          <TimeText at={timestamp} as={withRun ? 'moment' : 'clock'} />
          <span className="level">{level}</span>
          <span className="message">
            {message}
            {withRun && run_id !== null && (
              <>
                {' '}
                <a href={hrefOf({ page: 'run', exportId, runId: run_id })}>run</a>
              </>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** The text after a short pause in typing. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 300);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** Reloads when a run ends, because its last entries are written then. */
function useReloadAtEnd(live: boolean, reload: () => void): void {
  const [wasLive, setWasLive] = useState(live);
  useEffect(() => {
    if (wasLive && !live) reload();
    setWasLive(live);
  }, [live, wasLive, reload]);
}
