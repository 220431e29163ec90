import type { ReactNode } from 'react';
import type { ApiFailure } from '../api.ts';
import type { Resource } from '../use-resource.ts';

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
  /** The page still shows older data. */
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

/** A resource that is not there yet, or could not be loaded again. */
export function Pending({ data, failure, reload, lines }: Resource<unknown> & { lines?: number }) {
  return (
    <>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading {...(lines !== undefined && { lines })} />}
    </>
  );
}

interface TroubleProps extends FailureProps {
  /** The name of the thing, such as `export`. */
  readonly what: string;
}

/** A failure to load one thing. A 404 is not shown as an error and offers no retry. */
export function Trouble({ what, ...rest }: TroubleProps) {
  if (rest.failure?.status !== 404) return <Failure {...rest} />;
  return (
    <Empty title={`This ${what} does not exist`} heading="h1">
      <p>It may have been deleted, or belong to another project.</p>
    </Empty>
  );
}
