import { Component, type ReactNode } from 'react';
import type { ApiFailure } from '../api.ts';
import { type Resource, useConsole } from '../use-api.ts';
import { useTitle } from '../use-route.ts';
import { hrefOf, type Route } from '../route.ts';
import type { Scope } from '../api-types.ts';

interface EmptyProps {
  readonly title: string;
  readonly children?: ReactNode;
  /** `h1` if the page has no other heading. */
  readonly heading?: 'h1' | 'h2';
}

/** Shown if there is nothing yet, with what to do. */
export function Empty({ title, children, heading: Heading = 'h2' }: EmptyProps) {
  return (
    <div className="empty">
      <svg viewBox="0 0 48 24" aria-hidden="true">
        <path d="M2 8q5.500-6 11 0t11 0t11 0t11 0M2 18q5.500-6 11 0t11 0t11 0t11 0" />
      </svg>
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

/** Grey lines in place of the answer; screen readers say "Loading". */
export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div className="stack loading" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all alike.
        <span key={line} />
      ))}
    </div>
  );
}

interface FailureProps {
  readonly failure: ApiFailure | null;
  readonly onRetry?: () => void;
  readonly stale?: boolean;
}

/** The problems of an API answer; for a server error also the request id. */
export function Failure({ failure, onRetry, stale = false }: FailureProps) {
  if (!failure) return null;
  return (
    <div className="row alert is-Failed" role="alert">
      <div>
        {failure.problems.map(({ attr, detail }) => (
          <p key={`${attr} ${detail}`}>
            {attr !== null && <strong>{attr.split('__').join(' › ')}: </strong>}
            {detail}
          </p>
        ))}
        {stale && <p className="muted">Showing the last data received.</p>}
        {failure.requestId !== null && failure.status >= 500 && (
          <p className="muted">
            Request <code>{failure.requestId}</code>
          </p>
        )}
      </div>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

interface PendingProps extends Resource<unknown> {
  readonly lines?: number;
  /** The name of the one thing that is loaded, such as `export`: if it does not exist, that is no error. */
  readonly what?: string;
}

/** A resource that is not there yet, or could not be loaded again. */
export function Pending({ data, failure, reload, lines, what }: PendingProps) {
  if (what !== undefined && failure?.status === 404) {
    return (
      <Empty title={`This ${what} does not exist`} heading="h1">
        <p>It may have been deleted, or belong to another project.</p>
      </Empty>
    );
  }
  return (
    <>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading {...(lines !== undefined && { lines })} />}
    </>
  );
}

interface FrameProps {
  readonly above: readonly (readonly [name: string, route: Route])[];
  readonly title: string;
  readonly tab?: string;
  readonly children: ReactNode;
}

/** A page below others, with the links to them. */
export function Frame({ above, title, tab = title, children }: FrameProps) {
  useTitle(tab);
  return (
    <>
      <Crumbs above={above} />
      <div className="row heading">
        <h1>{title}</h1>
      </div>
      {children}
    </>
  );
}

export function Crumbs({ above }: Pick<FrameProps, 'above'>) {
  return (
    <nav className="crumbs small" aria-label="Place">
      {above.map(([name, route]) => (
        <a key={route.page} href={hrefOf(route)}>
          {name}
        </a>
      ))}
    </nav>
  );
}

/** Shows a form only to a key that can use it. */
export function NeedsScope({ scope, children }: { scope: Scope; children: ReactNode }) {
  const { granted, may } = useConsole();
  if (may(scope)) return children;
  if (granted === null) return <Loading />;
  return (
    <p className="muted" role="status">
      This needs an API key with the scope <code>{scope}</code>.
    </p>
  );
}

interface State {
  readonly failed: boolean;
}

/**
 * Shows what to do if a part of the page cannot be drawn, in place of nothing at all. A file of the page that cannot be loaded
 * ends here too: a new release may have replaced it. Give it a `key` of what it shows: another one is tried anew.
 */
export class Boundary extends Component<{ readonly children: ReactNode }, State> {
  override state: State = { failed: false };

  static getDerivedStateFromError(): State {
    return { failed: true };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <div className="row alert is-Failed" role="alert">
        <p>
          This part of the page cannot be shown. A new release may have replaced its files, or the
          service is unreachable.
        </p>
        <button type="button" onClick={() => window.location.reload()}>
          Load the page again
        </button>
      </div>
    );
  }
}
