import type { ReactNode } from 'react';
import type { ApiFailure } from '../client.ts';

/** Nothing there yet, and what could be done about it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <svg viewBox="0 0 48 24" aria-hidden="true">
        <path d="M2 8q5.500-6 11 0t11 0t11 0t11 0M2 18q5.500-6 11 0t11 0t11 0t11 0" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Grey lines where the answer will stand; said to screen readers as loading. */
export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div className="loading" role="status" aria-label="Loading">
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
  /** What stands on the page is from before. */
  readonly stale?: boolean;
}

/** What went wrong, in the API's words, and its id for whoever looks into it. */
export function Failure({ failure, onRetry, stale = false }: FailureProps) {
  if (!failure) return null;
  return (
    <div className="alert bad" role="alert">
      <div>
        {failure.problems.map(({ attr, detail }) => (
          <p key={`${attr} ${detail}`}>
            {attr !== null && <strong>{attr.split('__').join(' › ')}: </strong>}
            {detail}
          </p>
        ))}
        {stale && <p className="muted">What is shown is from before.</p>}
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

interface TroubleProps extends FailureProps {
  /** What was asked for, in a word. */
  readonly what: string;
}

/** A failure to show one thing: that there is none is no fault, and asking again is no help. */
export function Trouble({ what, ...rest }: TroubleProps) {
  if (rest.failure?.status !== 404) return <Failure {...rest} />;
  return (
    <Empty title={`There is no such ${what}`}>
      <p>It may have been deleted, or belong to another project.</p>
    </Empty>
  );
}
