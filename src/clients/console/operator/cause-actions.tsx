import type { Cause } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx';
import { Failure, Loading } from '../parts/notice.tsx';
import { useSay } from '../parts/toasts.tsx';
import { useState } from 'react';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import type { OperatorAction, OperatorClient } from './operator-client.ts';

interface Props {
  readonly cause: Cause;
  readonly client: OperatorClient;
}

const actions = [
  ['probe', 'Probe now', 'One interval of one export is exported again.'],
  ['retry', 'Retry all', 'Every interval without data is exported again, behind live runs.'],
  ['pause', 'Pause all', 'All exports of this cause are paused.'],
] as const satisfies readonly (readonly [OperatorAction, string, string])[];

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
  readonly action: OperatorAction;
  readonly verb: string;
  readonly meaning: string;
  readonly onClose: () => void;
}

function ActionDialog(props: DialogProps) {
  const { cause, client, action, verb, meaning, onClose } = props;
  const say = useSay();
  const [done, setDone] = useState(0);
  const load = async () => {
    const all = await client.readExports(cause.id);
    return action === 'probe' ? all.slice(0, 1) : all;
  };
  const preview = useResource({ key: `${cause.id} ${action}`, load });
  const exports = preview.data ?? [];
  const start = useAction(async () => {
    const chosen = preview.data ?? (await load());
    let passedOver = 0;
    setDone(0);
    for (const { id } of chosen) {
      if (!(await client.act(id, action))) passedOver += 1;
      setDone((count) => count + 1);
    }
    const rest = passedOver === 0 ? '' : `; nothing to do for ${passedOver} of them`;
    say(`${verb}: ${plural(chosen.length, 'export')}${rest}.`);
    onClose();
  });
  const customers = new Set(exports.map((one) => one.organization_id)).size;
  const missing = exports.reduce((sum, one) => sum + one.missing_intervals, 0);
  const paused = action === 'retry' ? exports.filter((one) => one.paused).length : 0;
  return (
    <ConfirmDialog title={`${verb}?`} verb={verb} action={start} onClose={onClose}>
      <p>{meaning}</p>
      <Failure failure={preview.failure} onRetry={preview.reload} />
      {!preview.data && !preview.failure && <Loading lines={1} />}
      {preview.data && (
        <p role="status">
          {plural(exports.length, 'export')} of {plural(customers, 'customer')}
          {action !== 'pause' &&
            `, ${plural(action === 'probe' ? Math.min(1, missing) : missing, 'interval')} without data`}
          {paused > 0 && `; ${plural(paused, 'export')} that Sluice paused continue`}.
        </p>
      )}
      {done > 0 && (
        <progress aria-label="Exports that are done" value={done} max={exports.length} />
      )}
      {start.failure && <p>Press again: what is done is not done twice.</p>}
    </ConfirmDialog>
  );
}
