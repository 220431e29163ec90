import { useState } from 'react';
import type { BatchExport } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { useAction } from '../use-action.ts';
import { ConfirmDialog } from './dialog.tsx';

interface Props {
  readonly batchExport: BatchExport;
  readonly onChanged: () => void;
}

/** Pauses or unpauses an export, after confirmation. */
export function PauseButton({ batchExport, onChanged }: Props) {
  const [open, setOpen] = useState(false);
  const { paused, name } = batchExport;
  const Dialog = paused ? UnpauseDialog : PauseDialog;
  return (
    <>
      <button
        type="button"
        onClick={() => setOpen(true)}
        aria-label={`${paused ? 'Unpause' : 'Pause'} ${name}`}
      >
        {paused ? 'Unpause' : 'Pause'}
      </button>
      {open && (
        <Dialog batchExport={batchExport} onChanged={onChanged} onClose={() => setOpen(false)} />
      )}
    </>
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
export function DeleteButton({ batchExport: { id, name }, onChanged }: Props) {
  const { client, say } = useConsole();
  const [open, setOpen] = useState(false);
  const remove = useAction(async () => {
    await client.deleteExport(id);
    say(`${name} is deleted.`);
    setOpen(false);
    onChanged();
  });
  return (
    <>
      <button
        type="button"
        className="quiet bad-text"
        onClick={() => setOpen(true)}
        aria-label={`Delete ${name}`}
      >
        Delete
      </button>
      {open && (
        <ConfirmDialog
          title={`Delete ${name}?`}
          verb="Delete the export"
          danger
          action={remove}
          onClose={() => setOpen(false)}
        >
          <p>
            Its live runs and backfills are cancelled, and it never runs again. Files at the
            destination stay. You cannot undo this.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
