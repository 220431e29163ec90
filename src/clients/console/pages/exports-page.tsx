import type { ExportSummary, OffsetPage } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
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
import { HealthLinks } from '../parts/health-links.tsx';
import { ListTools } from '../parts/list-tools.tsx';
import { MessageText } from '../parts/message-text.tsx';
import { Empty, Failure, Loading } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { RunStrip } from '../parts/status.tsx';
import { readRunError } from '../problems.ts';
import { currentHash, hrefOf, withQuery } from '../route.ts';
import { chosenOf, offsetOf, useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';
import { ExportZone } from '../use-times.ts';
import { useTitle } from '../use-title.ts';

const orderings = {
  health: 'Most urgent first',
  '-created_at': 'Newest first',
  name: 'By name',
  '-last_run': 'Newest run first',
  last_run: 'Oldest run first',
} as const;

const pageSize = 50;

/** The exports of the project: how many have which health, and a page of those that are asked for. */
export function ExportsPage() {
  const { api, may } = useConsole();
  const { query } = useQuery();
  const chosen = chosenOf(query, 'health', healths);
  const search = query.get('search') ?? '';
  const [ordering = 'health'] = chosenOf(query, 'ordering', Object.keys(orderings));
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
          <HealthLinks counts={counts.data} chosen={chosen} to={addressOf} />
        )}
        {may('batch_export:write') && (
          <a className="button primary last" href={hrefOf({ page: 'new' })}>
            New export
          </a>
        )}
      </div>
      {!isNew && <ListTools what="exports" orderings={orderings} ordering={ordering} />}
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
      {data && data.results.length > 0 && <Rows page={data} />}
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

function Rows({ page }: { page: OffsetPage<ExportSummary> }) {
  return (
    <ul className="card" aria-label={`${formatCount(page.count)} exports`}>
      {page.results.map((batchExport) => (
        <ExportZone key={batchExport.id} value={batchExport.timezone}>
          <ExportRow batchExport={batchExport} />
        </ExportZone>
      ))}
    </ul>
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
