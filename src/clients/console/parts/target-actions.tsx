import type { NotificationTarget } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { useAction } from '../use-action.ts';
import { DeleteButton } from './delete-button.tsx';
import { ConfirmDialog, DialogButton } from './dialog.tsx';
import { Failure } from './notice.tsx';
import { TargetDialog } from './target-form.tsx';

interface Props {
  readonly target: NotificationTarget;
  readonly name: string;
  readonly events: readonly string[];
  readonly onChanged: () => void;
}

/** What can be changed of a target. */
export function TargetActions({ target, name, events, onChanged }: Props) {
  const { client, say } = useConsole();
  const toggle = useAction(async () => {
    await client.changeTarget(target.id, { enabled: !target.enabled });
    say(`${name} is ${target.enabled ? 'disabled' : 'enabled'}.`);
    onChanged();
  });
  return (
    <div className="row">
      <DialogButton
        aria-label={`Edit ${name}`}
        dialog={(onClose) => (
          <TargetDialog
            {...{ target, events, onClose }}
            save={async (body) => {
              await client.changeTarget(target.id, body);
              say(`${name} is saved.`);
              onChanged();
            }}
          />
        )}
      >
        Edit
      </DialogButton>
      <button
        type="button"
        disabled={toggle.busy}
        aria-label={`${target.enabled ? 'Disable' : 'Enable'} ${name}`}
        onClick={() => void toggle.run()}
      >
        {target.enabled ? 'Disable' : 'Enable'}
      </button>
      {target.kind === 'webhook' && (
        <DialogButton
          aria-label={`New secret for ${name}`}
          dialog={(onClose) => <RotateDialog {...{ target, name, onChanged, onClose }} />}
        >
          New secret
        </DialogButton>
      )}
      <DeleteButton
        name={name}
        what="target"
        remove={() => client.deleteTarget(target.id)}
        onDeleted={onChanged}
      >
        Nothing is sent to it any more, and its log goes.
      </DeleteButton>
      <Failure failure={toggle.failure} />
    </div>
  );
}

interface RotateProps extends Omit<Props, 'events'> {
  readonly onClose: () => void;
}

function RotateDialog({ target, name, onChanged, onClose }: RotateProps) {
  const { client, say } = useConsole();
  const rotate = useAction(async () => {
    const { secret } = await client.rotateTargetSecret(target.id);
    say(`The new secret of ${name}, shown once: ${secret}`);
    onChanged();
    onClose();
  });
  return (
    <ConfirmDialog
      title={`A new secret for ${name}?`}
      verb="Make a new secret"
      action={rotate}
      onClose={onClose}
    >
      <p>The secret of now signs too for 24 hours. The new one is shown once.</p>
    </ConfirmDialog>
  );
}
