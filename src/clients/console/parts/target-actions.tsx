import type { NotificationTarget } from '../api-types.ts';
import { useTargets } from '../targets-context.ts';
import { useAction } from '../use-action.ts';
import { ActButton } from './act-button.tsx';
import { DeleteButton } from './delete-button.tsx';
import { ConfirmDialog, DialogButton } from './dialog.tsx';
import { lostSecret } from './secret-dialog.tsx';
import { TargetDialog } from './target-form.tsx';
import { useSay } from './toasts.tsx';

interface Props {
  readonly target: NotificationTarget;
  readonly name: string;
}

/** The actions on a target. */
export function TargetActions({ target, name }: Props) {
  const { api, base } = useTargets();
  const say = useSay();
  const toggle = useAction(async () => {
    await api.patch(`${base}/{id}`, { id: target.id }, { enabled: !target.enabled });
    say(`${name} is ${target.enabled ? 'disabled' : 'enabled'}.`);
  });
  const verb = target.enabled ? 'Disable' : 'Enable';
  return (
    <div className="row">
      <DialogButton
        aria-label={`Edit ${name}`}
        dialog={(onClose) => (
          <TargetDialog
            {...{ target, onClose }}
            save={async (body) => {
              await api.patch(`${base}/{id}`, { id: target.id }, body);
              say(`${name} is saved.`);
            }}
          />
        )}
      >
        Edit
      </DialogButton>
      <ActButton act={toggle} aria-label={`${verb} ${name}`}>
        {verb}
      </ActButton>
      {target.kind === 'webhook' && (
        <DialogButton
          aria-label={`New secret for ${name}`}
          dialog={(onClose) => <RotateDialog {...{ target, name, onClose }} />}
        >
          New secret
        </DialogButton>
      )}
      <DeleteButton
        name={name}
        what="target"
        remove={() => api.remove(`${base}/{id}`, { id: target.id })}
      >
        Nothing is sent to it any more, and its log goes.
      </DeleteButton>
    </div>
  );
}

interface RotateProps extends Props {
  readonly onClose: () => void;
}

function RotateDialog({ target, name, onClose }: RotateProps) {
  const { api, base, showSecret } = useTargets();
  const say = useSay();
  const rotate = useAction(async () => {
    const { secret } = await api.post(`${base}/{id}/rotate_secret`, { id: target.id });
    onClose();
    if (secret === null) say(lostSecret);
    else showSecret(name, secret);
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
