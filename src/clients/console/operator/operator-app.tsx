import { useMemo } from 'react';
import { ConsoleContext, useApi, useResource } from '../use-api.ts';
import { ExportPage } from '../pages/export-page.tsx';
import { RunPage } from '../pages/run-page.tsx';
import { Boundary, Failure } from '../parts/notice.tsx';
import { targetPaths } from '../parts/targets.ts';
import { ServiceBanner, TopBar } from '../parts/top-bar.tsx';
import { TargetList } from '../parts/target-list.tsx';
import { hrefOf, projectOf, type Route, readRoute } from '../route.ts';
import { useFocusOnPage, useHash } from '../use-route.ts';
import { CustomersPage } from './customers-page.tsx';
import { CausesPage } from './causes-page.tsx';

const places = [
  ['exports', 'All customers'],
  ['customers', 'Customers'],
  ['notifications', 'Notifications'],
] as const;

interface Props {
  readonly operatorKey: string;
  readonly onSignOut: (reason?: string) => void;
}

/** The page of an operator: all customers, by what is wrong, each export to look at, and who is notified. */
export function OperatorApp({ operatorKey, onSignOut }: Props) {
  const api = useApi(operatorKey, '', onSignOut);
  const hash = useHash();
  const route = readRoute(hash);
  const project = projectOf(hash);
  useFocusOnPage('exportId' in route ? `${route.page} ${route.exportId}` : route.page);
  const loaded = useResource({
    key: 'me',
    load: (signal) => api.get('/api/admin/me', {}, signal),
    pollMs: (data) => (data ? null : 10_000),
  });
  const me = loaded.data;
  const mayWrite = me?.scopes.includes('operator:write') ?? false;
  const context = useMemo(
    () => ({ api, me: null, granted: null, may: () => mayWrite }),
    [api, mayWrite],
  );
  const open = places.find(([page]) => page === route.page)?.[0] ?? 'exports';
  return (
    <ConsoleContext value={context}>
      <TopBar
        home={hrefOf({ page: 'exports' }, '')}
        onSignOut={onSignOut}
        label="Parts of the page"
        places={[
          ...places.map(([page, name]) => [name, hrefOf({ page }, ''), page === open] as const),
          ['Queues', '/admin/queues', false],
        ]}
      />
      <main id="main" tabIndex={-1}>
        <ServiceBanner />
        <Failure failure={loaded.failure} onRetry={loaded.reload} />
        {me !== null && !mayWrite && !('exportId' in route) && (
          <p className="row alert is-paused" role="status">
            This key only reads. To probe, retry or pause exports, or to change notification
            targets, sign in with a key that has the scope operator:write.
          </p>
        )}
        {project !== null && 'exportId' in route ? (
          <Look key={project} {...{ operatorKey, project, route, onSignOut }} />
        ) : route.page === 'customers' ? (
          <CustomersPage />
        ) : route.page === 'notifications' ? (
          <TargetList reach={null} base={targetPaths.installation}>
            <p>A target here hears of the exports of all customers, and of dead workers.</p>
          </TargetList>
        ) : (
          <CausesPage />
        )}
      </main>
    </ConsoleContext>
  );
}

interface LookProps extends Props {
  readonly project: string;
  readonly route: Extract<Route, { exportId: string }>;
}

const nothing = () => false;

/** An export of a customer, which links of messages and of the queue dashboard lead to. Nothing can be changed here. */
function Look({ operatorKey, project, route, onSignOut }: LookProps) {
  const api = useApi(operatorKey, project, onSignOut);
  const context = useMemo(() => ({ api, me: null, granted: [], may: nothing }), [api]);
  return (
    <ConsoleContext value={context}>
      <p className="row alert is-paused" role="status">
        You look at an export of a customer. The page hides rows, files and secrets, and the
        export’s Changes show that you looked.
      </p>
      <Boundary key={`${route.page} ${route.exportId}`}>
        {route.page === 'run' ? (
          <RunPage key={route.runId} exportId={route.exportId} runId={route.runId} />
        ) : (
          <ExportPage
            key={route.exportId}
            exportId={route.exportId}
            tab={route.page === 'export' ? route.tab : 'settings'}
          />
        )}
      </Boundary>
    </ConsoleContext>
  );
}
