import { useEffect, useMemo } from 'react';
import { connectApi } from '../api.ts';
import { targetPaths } from '../targets-context.ts';
import { Failure } from '../parts/notice.tsx';
import { ServiceBanner } from '../parts/service-banner.tsx';
import { TargetList } from '../parts/target-list.tsx';
import { TopBar } from '../parts/top-bar.tsx';
import { hrefOf, type Route, readRoute } from '../route.ts';
import { useHash } from '../use-route.ts';
import { installationEvents } from '../target-events.ts';
import { useFocusOnPage } from '../use-focus-on-page.ts';
import { useResource } from '../use-resource.ts';
import { CausesPage } from './causes-page.tsx';

interface Props {
  readonly operatorKey: string;
  readonly onSignOut: (reason?: string) => void;
}

/** The page of an operator: all customers, by what is wrong, and who is notified of it. */
export function OperatorApp({ operatorKey, onSignOut }: Props) {
  const api = useMemo(
    () => connectApi(operatorKey, '', () => onSignOut('The API key is no longer accepted.')),
    [operatorKey, onSignOut],
  );
  const isOnNotifications = usePage() === 'notifications';
  useFocusOnPage(String(isOnNotifications));
  const {
    data: me,
    failure,
    reload,
  } = useResource({
    key: 'me',
    load: (signal) => api.get('/api/admin/me', {}, signal),
    pollMs: (data) => (data ? null : 10_000),
  });
  const mayWrite = me?.scopes.includes('operator:write') ?? false;
  return (
    <>
      <TopBar
        home={hrefOf({ page: 'exports' }, '')}
        onSignOut={onSignOut}
        nav={
          <nav className="places" aria-label="Parts of the page">
            <Place page="exports" isOpen={!isOnNotifications}>
              All customers
            </Place>
            <Place page="notifications" isOpen={isOnNotifications}>
              Notifications
            </Place>
            <a href="/admin/queues">Queues</a>
          </nav>
        }
      />
      <main id="main" tabIndex={-1}>
        <ServiceBanner />
        <Failure failure={failure} onRetry={reload} />
        {me !== null && !mayWrite && (
          <p className="row alert is-paused" role="status">
            This key only reads. To probe, retry or pause exports, or to change notification
            targets, sign in with a key that has the scope operator:write.
          </p>
        )}
        {isOnNotifications ? (
          <TargetList
            {...{ api, mayWrite, reach: null, events: installationEvents }}
            base={targetPaths.installation}
          >
            <p>A target here hears of the exports of all customers, and of dead workers.</p>
          </TargetList>
        ) : (
          <CausesPage api={api} mayWrite={mayWrite} />
        )}
      </main>
    </>
  );
}

interface PlaceProps {
  readonly page: 'exports' | 'notifications';
  readonly isOpen: boolean;
  readonly children: string;
}

function Place({ page, isOpen, children }: PlaceProps) {
  return (
    <a href={hrefOf({ page }, '')} aria-current={isOpen ? 'page' : undefined}>
      {children}
    </a>
  );
}

/** Messages have a link to an export's page, which is its customer's: an operator gets the causes of that export. */
function usePage(): Route['page'] {
  const route = readRoute(useHash());
  const exportId = 'exportId' in route ? route.exportId : null;
  useEffect(() => {
    if (exportId === null) return;
    window.location.replace(hrefOf({ page: 'exports' }, '', { search: exportId }));
  }, [exportId]);
  return route.page;
}
