import {
  type ButtonHTMLAttributes,
  type ReactNode,
  type SyntheticEvent,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import type { Action } from '../use-action.ts';
import { Failure } from './notice.tsx';

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly dialog: (onClose: () => void) => ReactNode;
}

/** A button that opens a dialog. */
export function DialogButton({ dialog, ...button }: ButtonProps) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)} {...button} />
      {open && dialog(() => setOpen(false))}
    </>
  );
}

/**
 * For a dialog that is open as long as it exists. Its end gives the focus back to what had it before. Whatever closes it calls
 * `onClose` at once: the browser says later that a dialog is closed, and a click or a key may come before that.
 */
export function useModal(onClose: () => void) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = ref.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return {
    ref,
    // By Escape. A file that was not chosen is cancelled too.
    onCancel: ({ target }: SyntheticEvent) => {
      if (target === ref.current) onClose();
    },
    onClose: () => {
      // Strict mode closes it, and opens it again at once.
      if (!ref.current?.open) onClose();
    },
  };
}

interface Props {
  readonly title: string;
  readonly children: ReactNode;
  /** The text of the button. */
  readonly verb: string;
  /** The text of the button that closes the dialog. */
  readonly dismiss?: string;
  readonly danger?: boolean;
  readonly action: Action<readonly []>;
  readonly onClose: () => void;
}

/** Asks for confirmation. It stays open if the action fails. */
export function ConfirmDialog(props: Props) {
  const { title, children, verb, dismiss = 'Cancel', danger, action, onClose } = props;
  const modal = useModal(onClose);
  const titleId = useId();
  return (
    <dialog {...modal} aria-labelledby={titleId}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void action.run();
        }}
      >
        <h2 id={titleId}>{title}</h2>
        {children}
        <Failure failure={action.failure} />
        <div className="row end">
          <button type="button" onClick={onClose}>
            {dismiss}
          </button>
          <button
            type="submit"
            className={danger ? 'danger' : 'primary'}
            aria-disabled={action.busy}
          >
            {verb}
          </button>
        </div>
      </form>
    </dialog>
  );
}
