import { type ReactNode, useCallback, useEffect, useMemo, useState } from 'react';
import type { Me } from './api-types.ts';
import { OperatorApp } from './operator/operator-app.tsx';
import { EditExportPage, NewExportPage } from './pages/edit-page.tsx';
import { ExportPage } from './pages/export-page.tsx';
import { ExportsPage } from './pages/exports-page.tsx';
import { RunPage } from './pages/run-page.tsx';
import { SignInPage } from './pages/sign-in-page.tsx';
import { NewStepPage, StepPage } from './pages/step-page.tsx';
import { TransformationsPage } from './pages/transformations-page.tsx';
import { Boundary, Failure, Loading } from './parts/notice.tsx';
import { NotificationsPage } from './parts/target-list.tsx';
import { ServiceBanner, TopBar } from './parts/top-bar.tsx';
import { repeatKeys } from './repeat-keys.ts';
import { hrefOf, type Route } from './route.ts';
import {
  askForSession,
  operatorProject,
  readSession,
  type Session,
  shareSession,
  storeSession,
} from './session.ts';
import { ConsoleContext, type Say, SayContext, useAction, useApi, useResource } from './use-api.ts';
import { useFocusOnPage, useRoute } from './use-route.ts';

/** Time in which another tab answers with its session. Until then a new tab shows no form that would vanish at once. */
const answerMs = 200;

export function App() {
  const [session, setSession] = useState(readSession);
  const [farewell, setFarewell] = useState('');
  const [isAsking, setAsking] = useState(session === null);
  const change = useCallback((next: Session | null, reason = '') => {
    storeSession(next);
    if (!next) repeatKeys.clear();
    setSession(next);
    setFarewell(reason);
  }, []);
  const signOut = useCallback((reason?: string) => change(null, reason), [change]);
  const isSignedOut = session === null;
  // At the start only: a tab that was signed out stays so.
  useEffect(() => {
    if (readSession()) return;
    const timer = setTimeout(() => setAsking(false), answerMs);
    const stop = askForSession(change);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [change]);
  useEffect(
    () =>
      session ? shareSession(session, () => signOut('You signed out in another tab.')) : undefined,
    [session, signOut],
  );
  if (isSignedOut && isAsking && farewell === '') {
    return (
      <main>
        <Loading />
      </main>
    );
  }
  if (isSignedOut) return <SignInPage notice={farewell} onSignedIn={change} />;
  if (session.project === operatorProject) {
    return (
      <Toasts>
        <OperatorApp operatorKey={session.key} onSignOut={signOut} />
      </Toasts>
    );
  }
  return (
    <Toasts>
      <SignedIn session={session} onChange={change} onSignOut={signOut} />
    </Toasts>
  );
}

interface SignedInProps {
  readonly session: Session;
  readonly onChange: (session: Session) => void;
  readonly onSignOut: (reason?: string) => void;
}

function SignedIn({ session, onChange, onSignOut }: SignedInProps) {
  const { key } = session;
  const { route, project } = useRoute(session.project);
  useEffect(() => {
    if (project !== session.project) onChange({ key, project });
  }, [key, project, session.project, onChange]);
  useFocusOnPage(nameOf(route));
  const api = useApi(key, project, onSignOut);
  const me = useResource({
    key: 'me',
    load: (signal) => api.get('/api/me', {}, signal),
    pollMs: (data) => (data ? null : 10_000),
  });
  const granted = me.data?.scopes ?? null;
  const may = useCallback<ConsoleContext['may']>(
    (scope) => granted?.some((one) => one === scope) ?? false,
    [granted],
  );
  const context = useMemo(() => ({ api, me: me.data, granted, may }), [api, me.data, granted, may]);
  return (
    <ConsoleContext value={context}>
      <TopBar
        home={hrefOf({ page: 'exports' })}
        label="Parts of the project"
        places={sections
          .filter(([, scope]) => may(scope))
          .map(([name, , page]) => [name, hrefOf({ page }), page === sectionOf(route)])}
        onSignOut={onSignOut}
      >
        <ProjectSwitch me={me.data} project={project} />
      </TopBar>
      <main id="main" tabIndex={-1}>
        <ServiceBanner />
        <Failure failure={me.failure} onRetry={me.reload} />
        <Boundary key={`${project} ${nameOf(route)}`}>
          <Page key={project} route={route} project={project} />
        </Boundary>
      </main>
    </ConsoleContext>
  );
}

/** The parts of the page that a key with the scope may read. */
const sections = [
  ['Exports', 'batch_export:read', 'exports'],
  ['Transformations', 'plugin:read', 'transformations'],
  ['Notifications', 'batch_export:read', 'notifications'],
] as const;

function sectionOf({ page }: Route) {
  if (page === 'notifications') return page;
  return ['transformations', 'new-step', 'step'].includes(page) ? 'transformations' : 'exports';
}

/** A page and what it is about; its tabs have the same. */
function nameOf(route: Route): string {
  const thing = 'exportId' in route ? route.exportId : 'stepId' in route ? route.stepId : '';
  return `${route.page} ${thing}`;
}

function Page({ route, project }: { readonly route: Route; readonly project: string }) {
  switch (route.page) {
    case 'exports':
    // Of operators.
    case 'customers':
      return <ExportsPage />;
    case 'new':
      return <NewExportPage />;
    case 'edit':
      return <EditExportPage key={route.exportId} exportId={route.exportId} />;
    case 'export':
      return <ExportPage key={route.exportId} exportId={route.exportId} tab={route.tab} />;
    case 'transformations':
      return <TransformationsPage />;
    case 'notifications':
      return <NotificationsPage project={project} />;
    case 'new-step':
      return <NewStepPage />;
    case 'step':
      return <StepPage key={route.stepId} stepId={route.stepId} />;
    case 'run':
      return <RunPage key={route.runId} exportId={route.exportId} runId={route.runId} />;
  }
}

interface Props {
  /** Null until the API has answered. */
  readonly me: Me | null;
  readonly project: string;
}

/** The name of the open project; a choice if the key has several. */
function ProjectSwitch({ me, project }: Props) {
  const projects = me?.projects ?? [];
  const open = projects.find(({ id }) => String(id) === project);
  if (projects.length < 2) {
    return <span className="muted small">{open?.name ?? `Project ${project}`}</span>;
  }
  return (
    <select
      className="project"
      aria-label="Project"
      value={project}
      onChange={({ target }) => {
        window.location.hash = hrefOf({ page: 'exports' }, target.value);
      }}
    >
      {open === undefined && <option value={project}>{`Project ${project}`}</option>}
      {projects.map(({ id, name }) => (
        <option key={id} value={id}>{`${name} (${id})`}</option>
      ))}
    </select>
  );
}

interface Message {
  readonly id: number;
  readonly text: string;
  readonly cancel?: (() => Promise<unknown>) | undefined;
}

/** Shows the newest message of what is in it; an animation hides it after a while. */
function Toasts({ children }: { readonly children: ReactNode }) {
  const [{ id, text, cancel }, setMessage] = useState<Message>({ id: 0, text: '' });
  const say = useCallback<Say>(
    (next, undo) => setMessage((last) => ({ id: last.id + 1, text: next, cancel: undo })),
    [],
  );
  return (
    <SayContext value={say}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {text !== '' && (
          <p className={cancel ? 'toast has-button' : 'toast'} key={id}>
            {text}
            {cancel && <CancelButton cancel={cancel} />}
          </p>
        )}
      </div>
    </SayContext>
  );
}

function CancelButton({ cancel }: { readonly cancel: () => Promise<unknown> }) {
  const act = useAction(async () => {
    await cancel();
    return 'Cancelled.';
  });
  return (
    <>
      <button
        type="button"
        className="small"
        aria-disabled={act.busy}
        onClick={() => void act.run()}
      >
        Cancel
      </button>
      {act.failure && <span> {act.failure.message}</span>}
    </>
  );
}
