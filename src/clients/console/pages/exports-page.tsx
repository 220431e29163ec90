import type { ExportSummary, Health, HealthCounts } from '../api-types.ts';
import { useConsole, useResource } from '../use-api.ts';
import {
  describeDestination,
  describeInterval,
  failureOf,
  healths,
  isBusy,
} from '../export-health.ts';
import { formatCount } from '../numbers.ts';
import { DeleteExportButton, PauseButton } from '../parts/export-actions.tsx';
import { HealthBadges, Lag, NextRun } from '../parts/export-state.tsx';
import { ExportZone, MessageText } from '../parts/time-text.tsx';
import { Empty, Failure, Loading } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { RunStrip } from '../parts/run-facts.tsx';
import { readRunError } from '../api.ts';
import { currentHash, hrefOf, withQuery } from '../route.ts';
import { chosenOf, offsetOf, useQuery, useSearchText, useTitle } from '../use-route.ts';

const orderings = {
  health: 'Most urgent first',
  '-created_at': 'Newest first',
  name: 'By name',
  '-last_run': 'Newest run first',
  last_run: 'Oldest run first',
} as const;

const defaultOrdering = 'health';
const pageSize = 50;

/** The exports of the project: how many have which health, and a page of those that are asked for. */
export function ExportsPage() {
  const { api, may } = useConsole();
  const { query } = useQuery();
  const chosen = chosenOf(query, 'health', healths);
  const search = query.get('search') ?? '';
  const [ordering = defaultOrdering] = chosenOf(query, 'ordering', Object.keys(orderings));
  const offset = offsetOf(query);
  const { data, failure, reload } = useResource({
    key: JSON.stringify([chosen, search, ordering, offset]),
    load: (signal) =>
      api.get(
        'batch_exports/summaries',
        {
          health: chosen,
          search,
          ordering: ordering as keyof typeof orderings,
          limit: pageSize,
          offset,
        },
        signal,
      ),
    pollMs: (page) => (page?.results.some(isBusy) ? 4_000 : 15_000),
  });
  const counts = useResource({
    key: 'counts',
    load: (signal) => api.get('batch_exports/health', {}, signal),
    pollMs: () => 15_000,
  });
  useTitle('Exports');
  const isFiltered = chosen.length > 0 || search !== '';
  const isNew = data?.count === 0 && !isFiltered;
  return (
    <>
      <div className="row heading">
        <h1>Exports</h1>
        {counts.data && counts.data.total > 0 && (
          <HealthLinks counts={counts.data} chosen={chosen} />
        )}
        {may('batch_export:write') && (
          <a className="button primary last" href={hrefOf({ page: 'new' })}>
            New export
          </a>
        )}
      </div>
      {!isNew && <ListTools ordering={ordering} />}
      <Failure
        failure={failure ?? counts.failure}
        onRetry={failure ? reload : counts.reload}
        stale={data !== null}
      />
      {!data && !failure && <Loading lines={5} />}
      {isNew && <NoExports />}
      {data?.results.length === 0 && !isNew && (
        <Empty title="No exports match">
          <p>
            <a href={addressOf(null)}>Show all exports</a>
          </p>
        </Empty>
      )}
      {data && data.results.length > 0 && (
        <ul className="card" aria-label={`${formatCount(data.count)} exports`}>
          {data.results.map((one) => (
            <ExportZone key={one.id} value={one.timezone}>
              <ExportRow batchExport={one} />
            </ExportZone>
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </>
  );
}

/** The address of the exports of one health; null: of all. */
const addressOf = (health: string | null): string =>
  withQuery(currentHash(), { health, from: null, ...(health === null ? { search: null } : {}) });

function NoExports() {
  const { may } = useConsole();
  return (
    <Empty title="No exports yet">
      <p>An export ships new rows to a destination at a fixed interval.</p>
      {may('batch_export:write') && (
        <a className="button primary" href={hrefOf({ page: 'new' })}>
          Create the first export
        </a>
      )}
    </Empty>
  );
}

function ExportRow({ batchExport }: { batchExport: ExportSummary }) {
  const { id, name, interval, latest_runs } = batchExport;
  return (
    <li className="export">
      <div className="export-name">
        <h2 className="row">
          <a href={hrefOf({ page: 'export', exportId: id, tab: 'runs' })}>{name}</a>
          <HealthBadges batchExport={batchExport} />
        </h2>
        <p className="muted small one-line" title={describeDestination(batchExport)}>
          {describeInterval(interval)} · {describeDestination(batchExport)}
        </p>
        <Reasons batchExport={batchExport} />
      </div>
      <div className="export-fact">
        <span className="caption">Latest runs</span>
        <RunStrip runs={latest_runs} exportId={id} />
      </div>
      <div className="export-fact">
        <span className="caption">Next run</span>
        <NextRun batchExport={batchExport} />
      </div>
      <div className="export-fact">
        <span className="caption">Complete up to</span>
        <Lag batchExport={batchExport} />
      </div>
      <div className="export-buttons">
        <PauseButton batchExport={batchExport} />
        <DeleteExportButton batchExport={batchExport} />
      </div>
    </li>
  );
}

/** Why the export has its health, as far as its other facts do not say it. */
function Reasons({ batchExport }: { batchExport: ExportSummary }) {
  const { id, health, health_reason: reason, paused_reason: pausedReason } = batchExport;
  const failed = failureOf(batchExport);
  const error = health === 'failing' && reason !== null ? readRunError(reason) : null;
  return (
    <>
      {pausedReason !== null && pausedReason !== reason && (
        <p className="warn-text small">{pausedReason}</p>
      )}
      {error && (
        <p className="bad-text small reason">
          {error.code !== null && <code>{error.code}</code>} <MessageText text={error.text} />{' '}
          {failed && (
            <a href={hrefOf({ page: 'run', exportId: id, runId: failed.id })}>Show the run</a>
          )}
        </p>
      )}
      {health === 'late' && <p className="warn-text small">{reason}</p>}
    </>
  );
}

/** `3 failing · 2 late · 493 fine`, each a link to these exports. None: nothing to say about them. */
function HealthLinks({ counts, chosen }: { counts: HealthCounts; chosen: readonly Health[] }) {
  const shown = healths.filter(
    (health) => counts[health] > 0 || chosen.includes(health) || health === 'fine',
  );
  return (
    <ul className="row health" aria-label="Exports by health">
      {shown.map((health) => (
        <li key={health}>
          <a
            className={`health-${health}`}
            href={addressOf(health)}
            aria-current={chosen.includes(health) ? 'true' : undefined}
          >
            {formatCount(counts[health])} {health}
          </a>
        </li>
      ))}
      {chosen.length > 0 && (
        <li>
          <a href={addressOf(null)}>all {formatCount(counts.total)}</a>
        </li>
      )}
    </ul>
  );
}

/** A search field and the order of the list, both kept in the address. */
function ListTools({ ordering }: { readonly ordering: string }) {
  const { setQuery } = useQuery();
  const [text, setText] = useSearchText();
  return (
    <div className="row filters">
      <input
        type="search"
        aria-label="Search exports"
        placeholder="Search by name"
        maxLength={400}
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <select
        className="order"
        aria-label="Order of the exports"
        value={ordering}
        onChange={({ target: { value } }) =>
          setQuery({ ordering: value === defaultOrdering ? null : value, from: null })
        }
      >
        {Object.entries(orderings).map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}
