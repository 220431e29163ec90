import type { BatchExport } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import {
  describeAdded,
  describeDestination,
  describeInterval,
  failureOf,
  isBusy,
} from '../export-health.ts';
import { Boundary } from '../parts/boundary.tsx';
import { Blocker } from '../parts/blocker.tsx';
import { DeleteExportButton, PauseButton, RunNowButton } from '../parts/export-actions.tsx';
import { HealthBadges, Lag, NextRun } from '../parts/export-state.tsx';
import { Fact, Facts } from '../parts/facts.tsx';
import { Loading, Trouble } from '../parts/notice.tsx';
import { RunProblem } from '../parts/run-problem.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { hrefOf, type Tab, tabs } from '../route.ts';
import { useResource } from '../use-resource.ts';
import { ExportZone } from '../use-times.ts';
import { goTo } from '../use-route.ts';
import { useTitle } from '../use-title.ts';
import { BackfillsTab } from './backfills-tab.tsx';
import { ChangesTab } from './changes-tab.tsx';
import { CoverageTab } from './coverage-tab.tsx';
import { ElementsTab } from './elements-tab.tsx';
import { LogsView } from './logs-view.tsx';
import { RunsTab } from './runs-tab.tsx';
import { SettingsTab } from './settings-tab.tsx';
import { StatementsTab } from './statements-tab.tsx';

/** One export: its state, and its runs, backfills, logs and settings. */
export function ExportPage({ exportId, tab }: { exportId: string; tab: Tab }) {
  const { api } = useConsole();
  const { data, failure, reload } = useResource({
    key: exportId,
    load: (signal) => api.get('batch_exports/{id}', { id: exportId }, signal),
    pollMs: (item) => (item && isBusy(item) ? 4_000 : 15_000),
  });
  useTitle(data?.name ?? 'Export');
  return (
    <ExportZone value={data?.timezone ?? 'UTC'}>
      <nav className="crumbs small" aria-label="Place">
        <a href={hrefOf({ page: 'exports' })}>Exports</a>
      </nav>
      <Trouble what="export" failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={8} />}
      {data && (
        <>
          <Head batchExport={data} />
          <nav className="tabs" aria-label="Parts of the export">
            {(Object.keys(tabs) as Tab[]).map((name) => (
              <a
                key={name}
                href={hrefOf({ page: 'export', exportId, tab: name })}
                aria-current={name === tab ? 'page' : undefined}
              >
                {tabs[name]}
              </a>
            ))}
          </nav>
          <Boundary key={tab}>
            <TabBody batchExport={data} tab={tab} />
          </Boundary>
        </>
      )}
    </ExportZone>
  );
}

function Head({ batchExport }: { batchExport: BatchExport }) {
  const { may } = useConsole();
  const { id, name, paused, paused_reason, last_paused_at, last_success_at } = batchExport;
  const { late_rows_added: late } = batchExport;
  const failed = failureOf(batchExport);
  return (
    <>
      <div className="row heading">
        <h1>{name}</h1>
        <HealthBadges batchExport={batchExport} />
        <div className="row last">
          <RunNowButton batchExport={batchExport} />
          <PauseButton batchExport={batchExport} />
          {may('batch_export:write') && (
            <a className="button" href={hrefOf({ page: 'edit', exportId: id })}>
              Edit
            </a>
          )}
          <DeleteExportButton
            batchExport={batchExport}
            onDeleted={() => goTo({ page: 'exports' })}
          />
        </div>
      </div>
      {paused && (
        <div className="row alert is-paused">
          <p>
            <strong>Paused</strong>
            {last_paused_at !== null && (
              <>
                {' '}
                since <TimeText at={last_paused_at} />
              </>
            )}
            . {paused_reason ?? 'No new intervals are exported.'}
          </p>
        </div>
      )}
      {failed && <RunProblem run={failed} />}
      <Blocker batchExport={batchExport} />
      <Facts>
        <Fact name="Destination">{describeDestination(batchExport)}</Fact>
        <Fact name="Interval">{describeInterval(batchExport.interval)}</Fact>
        <Fact name="Next run">
          <NextRun batchExport={batchExport} />
        </Fact>
        <Fact name="Complete up to">
          <Lag batchExport={batchExport} />
        </Fact>
        <Fact name="Last success">
          {last_success_at === null ? (
            <span className="muted">none yet</span>
          ) : (
            <TimeText at={last_success_at} as="ago" />
          )}
        </Fact>
        {late !== null && (
          <Fact name="Late rows">
            {describeAdded(late.rows)} on <TimeText at={late.at} />
          </Fact>
        )}
      </Facts>
    </>
  );
}

function TabBody({ batchExport, tab }: { batchExport: BatchExport; tab: Tab }) {
  switch (tab) {
    case 'runs':
      return <RunsTab exportId={batchExport.id} />;
    case 'coverage':
      return batchExport.mode === 'append' ? (
        <CoverageTab batchExport={batchExport} />
      ) : (
        <ElementsTab batchExport={batchExport} />
      );
    case 'backfills':
      return <BackfillsTab batchExport={batchExport} />;
    case 'logs':
      return <LogsView exportId={batchExport.id} runId={null} live={isBusy(batchExport)} />;
    case 'settings':
      return <SettingsTab batchExport={batchExport} />;
    case 'changes':
      return <ChangesTab batchExport={batchExport} />;
    case 'statements':
      return <StatementsTab exportId={batchExport.id} />;
  }
}
