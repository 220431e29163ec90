import { useState } from 'react';
import type { BatchExport } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { useAction } from '../use-action.ts';
import { DeleteButton } from './delete-button.tsx';
import { ConfirmDialog, DialogButton } from './dialog.tsx';

interface Props {
  readonly batchExport: BatchExport;
  readonly onChanged: () => void;
}

/** Pauses or unpauses an export, after confirmation. */
export function PauseButton({ batchExport, onChanged }: Props) {
  const { may } = useConsole();
  const { paused, name } = batchExport;
  const Dialog = paused ? UnpauseDialog : PauseDialog;
  const verb = paused ? 'Unpause' : 'Pause';
  if (!may('batch_export:write')) return null;
  return (
    <DialogButton
      aria-label={`${verb} ${name}`}
      dialog={(onClose) => <Dialog {...{ batchExport, onChanged, onClose }} />}
    >
      {verb}
    </DialogButton>
  );
}

interface DialogProps extends Props {
  readonly onClose: () => void;
}

function PauseDialog({ batchExport: { id, name }, onChanged, onClose }: DialogProps) {
  const { client, say } = useConsole();
  const pause = useAction(async () => {
    await client.pause(id);
    say(`${name} is paused.`);
    onClose();
    onChanged();
  });
  return (
    <ConfirmDialog title={`Pause ${name}?`} verb="Pause" action={pause} onClose={onClose}>
      <p>Sluice exports no new intervals until you unpause it. Live runs finish.</p>
    </ConfirmDialog>
  );
}

function UnpauseDialog({ batchExport: { id, name }, onChanged, onClose }: DialogProps) {
  const { client, say } = useConsole();
  const [backfill, setBackfill] = useState(true);
  const unpause = useAction(async () => {
    await client.unpause(id, backfill);
    say(`${name} is unpaused.`);
    onClose();
    onChanged();
  });
  const choice = (value: boolean, title: string, help: string) => (
    <label className="choice">
      <input
        type="radio"
        name="missed"
        checked={backfill === value}
        onChange={() => setBackfill(value)}
      />
      <span>
        <strong>{title}</strong>
        <small>{help}</small>
      </span>
    </label>
  );
  return (
    <ConfirmDialog title={`Unpause ${name}?`} verb="Unpause" action={unpause} onClose={onClose}>
      <fieldset>
        <legend>Intervals missed while paused</legend>
        {choice(true, 'Export them', 'Nothing is missing at the destination.')}
        {choice(
          false,
          'Skip them',
          'Continue with the next interval. You can add them later with a backfill.',
        )}
      </fieldset>
    </ConfirmDialog>
  );
}

/** Deletes an export, after confirmation. */
export function DeleteExportButton({ batchExport: { id, name }, onChanged }: Props) {
  const { client, may } = useConsole();
  if (!may('batch_export:write')) return null;
  const remove = () => client.deleteExport(id);
  return (
    <DeleteButton name={name} what="export" remove={remove} onDeleted={onChanged}>
      Its live runs and backfills are cancelled, and it never runs again. Files at the destination
      stay.
    </DeleteButton>
  );
}
