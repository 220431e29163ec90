import {
  type ButtonHTMLAttributes,
  type ReactNode,
  type SyntheticEvent,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';
import { onSubmit } from '../form/inputs.tsx';
import { fieldsIn } from '../form/fields.ts';
import { type Action, useAction, useSay } from '../use-api.ts';
import { Failure } from './notice.tsx';

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly act: Action<readonly []>;
}

/** A button that does something at once, and shows why the API refused. */
export function ActButton({ act, ...button }: Props) {
  return (
    <>
      <button type="button" aria-disabled={act.busy} onClick={() => void act.run()} {...button} />
      <Failure failure={act.failure} />
    </>
  );
}

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly dialog: (onClose: () => void) => ReactNode;
}

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
function useModal(onClose: () => void) {
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

interface DialogProps {
  readonly title: string;
  readonly children: ReactNode;
  readonly verb: string;
  /** The text of the button that closes the dialog; null: there is none. */
  readonly dismiss?: string | null;
  readonly danger?: boolean;
  readonly action: Action<readonly []>;
  readonly onClose: () => void;
}

/** Asks for confirmation. It stays open if the action fails. */
export function ConfirmDialog(props: DialogProps) {
  const { title, children, verb, dismiss = 'Cancel', danger, action, onClose } = props;
  const modal = useModal(onClose);
  const titleId = useId();
  return (
    <dialog {...modal} aria-labelledby={titleId}>
      <form className="stack" onSubmit={onSubmit(action.run)}>
        <h2 id={titleId}>{title}</h2>
        {children}
        <Failure failure={action.failure} />
        <div className="row end">
          {dismiss !== null && (
            <button type="button" onClick={onClose}>
              {dismiss}
            </button>
          )}
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

/** The children of an `AskButton` get this for their inputs. */
interface Inputs<Draft extends object> {
  readonly draft: Draft;
  readonly change: (part: Partial<Draft>) => void;
  /** Connects an input with a field of the draft, and shows its problem there. */
  readonly field: ReturnType<typeof fieldsIn<Draft>>;
}

interface AskProps<Draft extends object> extends Omit<DialogProps, 'action' | 'children'> {
  readonly draft?: Draft;
  /** A text that it returns is said. */
  readonly work: (draft: Draft) => Promise<unknown>;
  readonly children?: ReactNode | ((inputs: Inputs<Draft>) => ReactNode);
}

interface AskButtonProps<Draft extends object> extends Omit<AskProps<Draft>, 'onClose'> {
  /** The text of the button; default: the verb. */
  readonly button?: string;
  readonly label?: string;
  readonly className?: string;
}

/** A button that asks before it works, in a dialog that may have inputs. */
export function AskButton<Draft extends object = object>(props: AskButtonProps<Draft>) {
  const { button, label, className, ...asked } = props;
  return (
    <DialogButton
      className={className}
      aria-label={label}
      dialog={(onClose) => <AskDialog {...asked} onClose={onClose} />}
    >
      {button ?? props.verb}
    </DialogButton>
  );
}

export function AskDialog<Draft extends object>(props: AskProps<Draft>) {
  const { draft: first, work, children, ...dialog } = props;
  const [draft, setDraft] = useState(first ?? ({} as Draft));
  const action = useAction(async () => {
    const said = await work(draft);
    dialog.onClose();
    return said;
  });
  const change = (part: Partial<Draft>) => setDraft((last) => ({ ...last, ...part }));
  const problems = action.failure?.problems ?? [];
  const errors = new Map(problems.map(({ attr, detail }) => [attr?.split('__')[0] ?? '', detail]));
  const inputs = { draft, change, field: fieldsIn(draft, change, errors) };
  return (
    <ConfirmDialog {...dialog} action={action}>
      {typeof children === 'function' ? children(inputs) : children}
    </ConfirmDialog>
  );
}

interface DeleteProps {
  readonly name: string;
  /** The kind of thing, such as `export`. */
  readonly what: string;
  readonly remove: () => Promise<unknown>;
  readonly onDeleted?: () => void;
  readonly children: ReactNode;
}

export function DeleteButton({ name, what, remove, onDeleted, children }: DeleteProps) {
  return (
    <AskButton
      className="quiet bad-text"
      label={`Delete ${name}`}
      button="Delete"
      title={`Delete ${name}?`}
      verb={`Delete the ${what}`}
      danger
      work={async () => {
        await remove();
        onDeleted?.();
        return `${name} is deleted.`;
      }}
    >
      <p>{children} You cannot undo this.</p>
    </AskButton>
  );
}

interface CopyTextProps {
  readonly text: string;
  /** The kind of text, such as `path`. */
  readonly what: string;
}

export function CopyText({ text, what }: CopyTextProps) {
  const say = useSay();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(`The ${what} is copied.`);
    } catch {
      // Browsers allow it on https and localhost only.
      say(`The browser does not allow copying here. Select the ${what} instead.`);
    }
  };
  return (
    <>
      <code>{text}</code>{' '}
      <button
        type="button"
        className="small quiet"
        aria-label={`Copy ${text}`}
        onClick={() => void copy()}
      >
        Copy
      </button>
    </>
  );
}

interface SecretProps {
  readonly name: string;
  readonly secret: string;
  readonly what?: 'secret' | 'key';
  readonly children?: ReactNode;
  readonly onClose: () => void;
}

/** Shows a secret that no later answer has, until the reader closes it. */
export function SecretDialog({ name, secret, what = 'secret', children, onClose }: SecretProps) {
  const action = useAction(async () => onClose());
  return (
    <ConfirmDialog
      title={`The ${what} of ${name}`}
      verb="Done"
      dismiss={null}
      {...{ action, onClose }}
    >
      {children ?? <p>Your receiver checks signatures with it. It is shown only now: copy it.</p>}
      <p className="secret">
        <CopyText what={what} text={secret} />
      </p>
    </ConfirmDialog>
  );
}
