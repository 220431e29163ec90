import type { ReactNode } from 'react';
import { useAction } from '../use-action.ts';
import { ConfirmDialog, DialogButton } from './dialog.tsx';
import { useSay } from './toasts.tsx';

interface Props {
  readonly name: string;
  /** The kind of thing, such as `export`. */
  readonly what: string;
  readonly remove: () => Promise<unknown>;
  readonly onDeleted?: () => void;
  /** The meaning of the deletion. */
  readonly children: ReactNode;
}

/** Deletes a thing, after confirmation. */
export function DeleteButton(props: Props) {
  return (
    <DialogButton
      className="quiet bad-text"
      aria-label={`Delete ${props.name}`}
      dialog={(onClose) => <DeleteDialog {...props} onClose={onClose} />}
    >
      Delete
    </DialogButton>
  );
}

function DeleteDialog(props: Props & { readonly onClose: () => void }) {
  const { name, what, remove, onDeleted, children, onClose } = props;
  const say = useSay();
  const action = useAction(async () => {
    await remove();
    say(`${name} is deleted.`);
    onClose();
    onDeleted?.();
  });
  return (
    <ConfirmDialog
      title={`Delete ${name}?`}
      verb={`Delete the ${what}`}
      danger
      action={action}
      onClose={onClose}
    >
      <p>{children} You cannot undo this.</p>
    </ConfirmDialog>
  );
}
