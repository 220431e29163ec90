import type { BatchExport, Coverage } from '../api-types.ts';
import { useConsole, useResource } from '../use-api.ts';
import {
  describeAdded,
  describeDestination,
  describeInterval,
  failureOf,
  isBusy,
} from '../export-health.ts';
import { Boundary, Crumbs, Pending } from '../parts/notice.tsx';
import { DeleteExportButton, PauseButton, RunNowButton } from '../parts/export-actions.tsx';
import { HealthBadges, Lag, NextRun } from '../parts/export-state.tsx';
import { Facts } from '../parts/tables.tsx';
import { ExportAgainButton, RunProblem } from '../parts/run-problem.tsx';
import { ExportZone, IntervalText, TimeText, useNow } from '../parts/time-text.tsx';
import { hrefOf, type Tab, tabs } from '../route.ts';
import { goTo, useTitle } from '../use-route.ts';
import { BackfillsTab } from './backfills-tab.tsx';
import { ChangesTab } from './changes-tab.tsx';
import { CoverageTab } from './coverage-tab.tsx';
import { ElementsTab } from './elements-tab.tsx';
import { LogsView } from './logs-view.tsx';
import { RunsTab } from './runs-tab.tsx';
import { SettingsTab } from './settings-tab.tsx';
import { StatementsTab } from './statements-tab.tsx';
import { describeBlocker, needsOperator, reprocessOf } from '../coverage-blocker.ts';
import { TextField } from '../form/inputs.tsx';
import { plural } from '../numbers.ts';
import { AskButton } from '../parts/buttons.tsx';

export function ExportPage({ exportId, tab }: { exportId: string; tab: Tab }) {
  const { api } = useConsole();
  const loaded = useResource({
    key: exportId,
    load: (signal) => api.get('batch_exports/{id}', { id: exportId }, signal),
    pollMs: (item) => (item && isBusy(item) ? 4_000 : 15_000),
  });
  const { data } = loaded;
  useTitle(data?.name ?? 'Export');
  return (
    <ExportZone value={data?.timezone ?? 'UTC'}>
      <Crumbs above={[['Exports', { page: 'exports' }]]} />
      <Pending {...loaded} what="export" lines={8} />
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
      <Facts
        of={{
          Destination: describeDestination(batchExport),
          Interval: describeInterval(batchExport.interval),
          'Next run': <NextRun batchExport={batchExport} />,
          'Complete up to': <Lag batchExport={batchExport} />,
          'Last success':
            last_success_at === null ? (
              <span className="muted">none yet</span>
            ) : (
              <TimeText at={last_success_at} as="ago" />
            ),
          'Late rows': late && (
            <>
              {describeAdded(late.rows)} on <TimeText at={late.at} />
            </>
          ),
        }}
      />
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

const dayMs = 86_400_000;

type Range = NonNullable<Coverage['blocker']>;

/** The intervals that hold the high-water mark of an export, and the actions of an operator. Nothing if it needs no one. */
function Blocker({ batchExport }: { batchExport: BatchExport }) {
  const { api, may } = useConsole();
  const now = useNow();
  const {
    id,
    mode,
    high_water_mark: mark,
    latest_runs: runs,
    paused,
    paused_reason: reason,
  } = batchExport;
  const { data } = useResource({
    key: id,
    // An action that moves the mark or fills a hole shows in the export first.
    version: [mark, runs[0]?.id, runs[0]?.status].join(),
    load: (signal) => {
      // Of a single day: the blocker is the same.
      const from = new Date(Date.now() - dayMs).toISOString();
      return api.get('batch_exports/{id}/coverage', { id, from }, signal);
    },
    pollMs: () => 15_000,
  });
  const blocker = data?.blocker ?? null;
  if (blocker === null || !needsOperator(blocker, now)) return null;
  // The page says already that it is paused.
  if (paused && ['paused', 'never_asked'].includes(blocker.state)) return null;
  const isHealing = blocker.state === 'failed' && blocker.healing > 0;
  const nextProbe = isHealing ? (data?.healing?.next_probe_at ?? null) : null;
  return (
    <section className="row alert is-Failed" aria-label="What holds the export back">
      <div>
        <p>
          <strong>Complete only up to here:</strong>{' '}
          <IntervalText start={blocker.start} end={blocker.end} />
        </p>
        <p>
          {describeBlocker(blocker, paused && reason === null)}
          {nextProbe !== null && (
            <>
              {' '}
              It looks next at <TimeText at={nextProbe} />.
            </>
          )}
        </p>
      </div>
      {may('batch_export:write') && (
        <div className="row last">
          {mode === 'append' ? (
            <ExportAgainButton
              exportId={id}
              again={{ ...blocker, reprocess: reprocessOf(blocker) }}
            />
          ) : (
            <RunNowButton batchExport={batchExport} />
          )}
          <AcceptButton exportId={id} blocker={blocker} />
        </div>
      )}
    </section>
  );
}

function AcceptButton({ exportId, blocker }: { exportId: string; blocker: Range }) {
  const { api } = useConsole();
  const { start, end, intervals, state } = blocker;
  const accept = async ({ reason }: { readonly reason: string }) => {
    const { accepted } = await api.post(
      'batch_exports/{id}/coverage/accept',
      { id: exportId },
      { from: start, to: end, reason: reason.trim() === '' ? null : reason },
    );
    return `${plural(accepted, 'interval')} accepted.`;
  };
  return (
    <AskButton
      title={`Accept ${plural(intervals, 'interval')}?`}
      verb="Accept as it is"
      danger
      draft={{ reason: '' }}
      work={accept}
    >
      {({ field }) => (
        <>
          <p>
            <IntervalText start={start} end={end} />
          </p>
          <p>
            {state === 'unsettled'
              ? 'The files stay as they are, and the export counts as complete here although rows may still arrive.'
              : state === 'late_rows'
                ? 'The files stay as they are, and Sluice no longer looks for late rows here.'
                : 'No files are written, and the export counts as complete here although these intervals have no data.'}{' '}
            You can still export them later.
          </p>
          <TextField
            {...field('reason', 'Reason')}
            help="Optional. Kept in the activity of the export."
            input={{ maxLength: 1_000 }}
          />
        </>
      )}
    </AskButton>
  );
}
