import { Component, type ReactNode } from 'react';

interface Props {
  readonly children: ReactNode;
}

interface State {
  readonly failed: boolean;
}

/**
 * Shows what to do if a part of the page cannot be drawn, in place of nothing at all. A file of the page that cannot be loaded
 * ends here too: a new release may have replaced it. Give it a `key` of what it shows: another one is tried anew.
 */
export class Boundary extends Component<Props, State> {
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
