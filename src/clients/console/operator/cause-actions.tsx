import { type Api, ApiFailure } from '../api.ts';
import type { Cause, OperatorExport } from '../api-types.ts';
import { plural } from '../numbers.ts';
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx';
import { Failure, Loading } from '../parts/notice.tsx';
import { useSay } from '../parts/toasts.tsx';
import { useState } from 'react';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';

type OperatorAction = 'probe' | 'retry' | 'pause';

interface Props {
  readonly cause: Cause;
  readonly api: Api;
}

const actions = [
  ['probe', 'Probe now', 'One interval of one export is exported again.'],
  ['retry', 'Retry all', 'Every interval without data is exported again, behind live runs.'],
  ['pause', 'Pause all', 'All exports of this cause are paused.'],
] as const satisfies readonly (readonly [OperatorAction, string, string])[];

/** The actions of an operator on all exports of a cause; each shows first how many it is. */
export function CauseActions({ cause, api }: Props) {
  return actions.map(([action, verb, meaning]) => (
    <DialogButton
      key={action}
      aria-label={`${verb}: ${cause.code} ${cause.place}`}
      dialog={(onClose) => <ActionDialog {...{ cause, api, action, verb, meaning, onClose }} />}
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
  const { cause, api, action, verb, meaning, onClose } = props;
  const say = useSay();
  const [done, setDone] = useState(0);
  const load = async () => {
    const all = await readExports(api, cause.id);
    return action === 'probe' ? all.slice(0, 1) : all;
  };
  const preview = useResource({ key: `${cause.id} ${action}`, load });
  const exports = preview.data ?? [];
  const start = useAction(async () => {
    const chosen = preview.data ?? (await load());
    let passedOver = 0;
    setDone(0);
    for (const { id } of chosen) {
      if (!(await act(api, id, action))) passedOver += 1;
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

/** Every export of a cause. */
async function readExports(api: Api, cause: string): Promise<readonly OperatorExport[]> {
  const exports = new Map<string, OperatorExport>();
  for (let offset = 0; ; ) {
    const page = await api.get('/api/admin/exports', { cause_id: cause, limit: 1_000, offset });
    for (const one of page.results) exports.set(one.id, one);
    offset += page.results.length;
    if (page.next === null || page.results.length === 0) return [...exports.values()];
  }
}

/** Returns false if there was nothing to do, or the export is gone. */
async function act(api: Api, exportId: string, action: OperatorAction): Promise<boolean> {
  try {
    const path = '/api/admin/exports/{export_id}/act';
    return (await api.post(path, { export_id: exportId }, { action })).passed_over === null;
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 404) return false;
    throw error;
  }
}
