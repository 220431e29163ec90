import { type ReactNode, useCallback, useState } from 'react';
import { type Say, SayContext, useAction } from '../use-api.ts';

interface Message {
  readonly id: number;
  readonly text: string;
  readonly cancel?: (() => Promise<unknown>) | undefined;
}

/** Shows the newest message of what is in it; an animation hides it after a while. */
export function Toasts({ children }: { readonly children: ReactNode }) {
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
