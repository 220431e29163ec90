import { type ReactNode, useEffect, useId, useRef } from 'react';
import type { Action } from '../use-action.ts';
import { Failure } from './notice.tsx';

interface Props {
  readonly title: string;
  readonly children: ReactNode;
  /** What is done, as the button says it. */
  readonly verb: string;
  readonly danger?: boolean;
  readonly action: Action<readonly []>;
  readonly onClose: () => void;
}

/** Asks before something is done, and stays while it fails. */
export function ConfirmDialog({ title, children, verb, danger, action, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void action.run();
        }}
      >
        <h2 id={titleId}>{title}</h2>
        {children}
        <Failure failure={action.failure} />
        <div className="buttons end">
          <button type="button" onClick={() => dialog.current?.close()}>
            Back
          </button>
          <button type="submit" className={danger ? 'danger' : 'primary'} disabled={action.busy}>
            {verb}
          </button>
        </div>
      </form>
    </dialog>
  );
}
