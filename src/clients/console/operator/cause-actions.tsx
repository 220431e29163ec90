import type { Cause } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx';
import { Failure, Loading } from '../parts/notice.tsx';
import { useSay } from '../parts/toasts.tsx';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import type { OperatorClient, TaskAction } from './operator-client.ts';

interface Props {
  readonly cause: Cause;
  readonly client: OperatorClient;
}

const actions = [
  ['probe', 'Probe now', 'One interval of one export is exported again.'],
  ['retry', 'Retry all', 'Every interval without data is exported again, behind live runs.'],
  ['pause', 'Pause all', 'All exports of this cause are paused.'],
] as const satisfies readonly (readonly [TaskAction, string, string])[];

/** What an operator can do to all exports of a cause; each shows first how much it is. */
export function CauseActions({ cause, client }: Props) {
  return actions.map(([action, verb, meaning]) => (
    <DialogButton
      key={action}
      aria-label={`${verb}: ${cause.code} ${cause.place}`}
      dialog={(onClose) => <ActionDialog {...{ cause, client, action, verb, meaning, onClose }} />}
    >
      {verb}
    </DialogButton>
  ));
}

interface DialogProps extends Props {
  readonly action: TaskAction;
  readonly verb: string;
  readonly meaning: string;
  readonly onClose: () => void;
}

function ActionDialog(props: DialogProps) {
  const { cause, client, action, verb, meaning, onClose } = props;
  const say = useSay();
  const preview = useResource({
    key: `${cause.id} ${action}`,
    load: () => client.previewTask(cause.id, action),
  });
  const start = useAction(async () => {
    const task = await client.startTask(cause.id, action);
    say(`${verb} is started.`, async () => {
      await client.cancelTask(task.id);
    });
    onClose();
  });
  return (
    <ConfirmDialog title={`${verb}?`} verb={verb} action={start} onClose={onClose}>
      <p>{meaning}</p>
      <Failure failure={preview.failure} onRetry={preview.reload} />
      {!preview.data && !preview.failure && <Loading lines={1} />}
      {preview.data && (
        <p role="status">
          {plural(preview.data.exports, 'export')} of{' '}
          {plural(preview.data.organizations, 'customer')}
          {action !== 'pause' &&
            `, ${plural(preview.data.missing_intervals, 'interval')} without data`}
          {preview.data.paused_exports > 0 &&
            `; ${plural(preview.data.paused_exports, 'export')} that Sluice paused continue`}
          .
        </p>
      )}
    </ConfirmDialog>
  );
}
