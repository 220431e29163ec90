import { type ReactNode, useState } from 'react';
import { TextField } from '../form/text-field.tsx';
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx';
import { useAction } from '../use-action.ts';

interface Props {
  readonly verb: string;
  /** The name of its subject, such as `Acme`. */
  readonly of: string;
  readonly danger?: boolean;
  /** It asks for a name, which is this at first. */
  readonly name?: string;
  /** Called with the name. */
  readonly work: (name: string) => Promise<unknown>;
  readonly children?: ReactNode;
}

/** A button that asks before it works, for a name too. */
export function AskButton(props: Props) {
  return (
    <DialogButton
      aria-label={`${props.verb} ${props.of}`}
      dialog={(onClose) => <Ask {...props} onClose={onClose} />}
    >
      {props.verb}
    </DialogButton>
  );
}

function Ask(props: Props & { readonly onClose: () => void }) {
  const { verb, of, danger = false, name: initial, work, children, onClose } = props;
  const [name, setName] = useState(initial ?? '');
  const action = useAction(async () => {
    await work(name);
    onClose();
  });
  return (
    <ConfirmDialog title={`${verb} ${of}?`} {...{ verb, danger, action, onClose }}>
      {children}
      {initial !== undefined && (
        <TextField attr="name" label="Name" value={name} onChange={setName} />
      )}
    </ConfirmDialog>
  );
}

interface TenantProps {
  /** Of the organization or the project. */
  readonly of: string;
  readonly isDisabled: boolean;
  readonly change: (body: { name?: string; disabled?: boolean }) => Promise<unknown>;
}

/** Renames, disables and enables an organization or a project. */
export function TenantActions({ of, isDisabled, change }: TenantProps) {
  return (
    <>
      <AskButton verb="Rename" of={of} name={of} work={(name) => change({ name })} />
      <AskButton
        verb={isDisabled ? 'Enable' : 'Disable'}
        of={of}
        danger={!isDisabled}
        work={() => change({ disabled: !isDisabled })}
      >
        <p>
          {isDisabled
            ? 'Its keys are accepted again. Exports that this has paused continue with the next interval.'
            : 'Its keys are refused and its exports are paused. Live runs finish.'}
        </p>
      </AskButton>
    </>
  );
}
