import { type LogEntry, type LogLevel, logLevels } from '../api-types.ts';
import { useConsole, useResource } from '../use-api.ts';
import { FilterChips } from '../parts/tables.tsx';
import { MessageText, TimeText } from '../parts/time-text.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { hrefOf } from '../route.ts';
import { chosenOf, offsetOf, useQuery, useSearchText } from '../use-route.ts';

interface Props {
  readonly exportId: string;
  /** Null for the export and all its runs. */
  readonly runId: string | null;
  /** True if new entries are expected soon. */
  readonly live: boolean;
}

const logPageSize = 200;

/** Log entries, newest first. Those of a live run appear as they are written. */
export function LogsView({ exportId, runId, live }: Props) {
  const { api, may } = useConsole();
  const { query, setQuery } = useQuery();
  const [text, setText] = useSearchText();
  const levels = chosenOf<LogLevel>(query, 'level', logLevels);
  const search = query.get('search') ?? '';
  const offset = offsetOf(query);
  const { data, failure, reload } = useResource({
    key: JSON.stringify([exportId, runId, levels, search, offset]),
    // The last entries of a run are written when it ends.
    version: String(live),
    load: (signal) => {
      const page = { level: levels, search, limit: logPageSize, offset };
      const batch_export_id = exportId;
      return runId === null
        ? api.get('batch_exports/{batch_export_id}/logs', { batch_export_id, ...page }, signal)
        : api.get(
            'batch_exports/{batch_export_id}/runs/{run_id}/logs',
            { batch_export_id, run_id: runId, ...page },
            signal,
          );
    },
    pollMs: () => (live ? 3_000 : runId === null ? 15_000 : null),
  });
  return (
    <section aria-label="Logs">
      <div className="row filters">
        <FilterChips
          label="Levels"
          choices={logLevels}
          chosen={levels}
          onChange={(level) => setQuery({ level, from: null })}
        />
        {may('batch_export:read') && (
          <input
            type="search"
            aria-label="Search messages"
            placeholder="Search"
            maxLength={400}
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
        )}
        {live && <span className="live small">Live</span>}
      </div>
      <Pending {...{ data, failure, reload }} lines={6} />
      {data?.results.length === 0 && <Empty title="No log entries" />}
      {data && data.results.length > 0 && (
        <LogLines entries={data.results} exportId={exportId} withRun={runId === null} />
      )}
      {data && <OffsetPager page={data} pageSize={logPageSize} offset={offset} />}
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
          <TimeText at={timestamp} as="stamp" />
          <span className="level">{level}</span>
          <span className="message">
            <MessageText text={message} />
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
