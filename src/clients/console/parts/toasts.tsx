import { createContext, type ReactNode, useCallback, useContext, useState } from 'react';
import { useAction } from '../use-action.ts';

/** Shows a message; screen readers read it. With `cancel` it has a button for that, and stays longer. */
type Say = (message: string, cancel?: () => Promise<void>) => void;

const SayContext = createContext<Say | null>(null);

/** Only below `Toasts`. */
export function useSay(): Say {
  const say = useContext(SayContext);
  if (!say) throw new Error('useSay is used outside Toasts');
  return say;
}

interface Message {
  readonly id: number;
  readonly text: string;
  readonly cancel?: (() => Promise<void>) | undefined;
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

function CancelButton({ cancel }: { readonly cancel: () => Promise<void> }) {
  const say = useSay();
  const act = useAction(async () => {
    await cancel();
    say('Cancelled.');
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
