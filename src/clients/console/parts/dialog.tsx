import {
  type ButtonHTMLAttributes,
  type ReactNode,
  useEffect,
  useId,
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
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
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
          <button type="button" onClick={() => dialog.current?.close()}>
            {dismiss}
          </button>
          <button type="submit" className={danger ? 'danger' : 'primary'} disabled={action.busy}>
            {verb}
          </button>
        </div>
      </form>
    </dialog>
  );
}
