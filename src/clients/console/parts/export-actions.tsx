import { type ReactNode, useState } from 'react';
import type { BatchExport, ExportSummary, UnpausePreview } from '../api-types.ts';
import { cancelBackfill } from '../api.ts';
import { useAction, useConsole, useResource, useSay } from '../use-api.ts';
import { plural } from '../numbers.ts';
import { ActButton, AskDialog, ConfirmDialog, DeleteButton, DialogButton } from './buttons.tsx';
import { Failure, Loading } from './notice.tsx';
import { TimeText } from './time-text.tsx';

interface Props {
  readonly batchExport: ExportSummary;
}

/** Exports what is due now, or says why nothing is. */
export function RunNowButton({ batchExport: { id, name } }: Props) {
  const { api, may } = useConsole();
  const say = useSay();
  const run = useAction(async () => {
    const started = await api.post('batch_exports/{id}/run_now', { id });
    const { reason, total_runs: runs, backfill_id: backfillId } = started;
    if (backfillId === null) return reason ?? 'Nothing is due.';
    say(`${runs === 1 ? '1 interval is' : `${plural(runs, 'interval')} are`} exported.`, () =>
      cancelBackfill(api, id, backfillId, 'cancel'),
    );
  });
  if (!may('batch_export:write')) return null;
  return (
    <ActButton act={run} aria-label={`Run now: ${name}`}>
      Run now
    </ActButton>
  );
}

export function PauseButton({ batchExport }: Props) {
  const { api, may } = useConsole();
  const { id, paused, name } = batchExport;
  const verb = paused ? 'Unpause' : 'Pause';
  const pause = async () => {
    await api.post('batch_exports/{id}/pause', { id });
    return `${name} is paused.`;
  };
  if (!may('batch_export:write')) return null;
  // One button for both: it keeps the focus.
  return (
    <DialogButton
      aria-label={`${verb} ${name}`}
      dialog={(onClose) =>
        paused ? (
          <UnpauseDialog {...{ batchExport, onClose }} />
        ) : (
          <AskDialog title={`Pause ${name}?`} {...{ verb, onClose }} work={pause}>
            <p>Sluice exports no new intervals until you unpause it. Live runs finish.</p>
          </AskDialog>
        )
      }
    >
      {verb}
    </DialogButton>
  );
}

interface DialogProps extends Props {
  readonly onClose: () => void;
}

function UnpauseDialog({ batchExport, onClose }: DialogProps) {
  const { id, name } = batchExport;
  const { api } = useConsole();
  const path = 'batch_exports/{id}/unpause';
  const [chosen, setChosen] = useState({ backfill: true, retry_missing: true });
  const { data, failure, reload } = useResource({
    key: `unpause ${id}`,
    load: async (signal) =>
      (await api.post(path, { id }, { dry_run: true }, signal)) as UnpausePreview,
  });
  const unpause = useAction(async () => {
    // It asks for nothing that it does not show: an export without a past refuses it.
    const body = {
      backfill: chosen.backfill && (data?.missed_intervals ?? 0) > 0,
      retry_missing: chosen.retry_missing && (data?.missing.count ?? 0) > 0,
    };
    const { backfill_total_runs: runs } = (await api.post(path, { id }, body)) as BatchExport;
    onClose();
    return `${name} is unpaused.${runs === undefined ? '' : ` ${plural(runs, 'run')} started.`}`;
  });
  const change = (part: Partial<typeof chosen>) => setChosen({ ...chosen, ...part });
  return (
    <ConfirmDialog title={`Unpause ${name}?`} verb="Unpause" action={unpause} onClose={onClose}>
      <Failure failure={failure} onRetry={reload} />
      {!data && !failure && <Loading lines={2} />}
      {data && (
        <LeftOut
          preview={data}
          healing={batchExport.healing?.intervals ?? 0}
          chosen={chosen}
          onChange={change}
        />
      )}
    </ConfirmDialog>
  );
}

/** Intervals to export: those that were missed in the pause, and requested ones without data. */
type Chosen = Readonly<Record<'backfill' | 'retry_missing', boolean>>;

interface LeftOutProps {
  readonly preview: UnpausePreview;
  /** Of the intervals without data, those that Sluice exports by itself once their cause is over. */
  readonly healing: number;
  readonly chosen: Chosen;
  readonly onChange: (part: Partial<Chosen>) => void;
}

/** The number of intervals that stay without data unless they are exported now. */
function LeftOut({
  preview: { missed_intervals: missed, missing },
  healing,
  chosen,
  onChange,
}: LeftOutProps) {
  const choice = (field: keyof Chosen, title: string, help: ReactNode) => (
    <label className="choice">
      <input
        type="checkbox"
        checked={chosen[field]}
        onChange={({ target }) => onChange({ [field]: target.checked })}
      />
      <span>
        <strong>{title}</strong>
        <small>{help}</small>
      </span>
    </label>
  );
  const heals = chosen.retry_missing ? 0 : Math.min(healing, missing.count);
  const withoutData =
    (chosen.backfill ? 0 : missed) + (chosen.retry_missing ? 0 : missing.count - heals);
  return (
    <>
      {missed > 0 &&
        choice(
          'backfill',
          `Export ${plural(missed, 'interval')} missed while paused`,
          'They became due during the pause.',
        )}
      {missing.since !== null &&
        choice(
          'retry_missing',
          `Export ${plural(missing.count, 'interval')} without data`,
          <>
            Their runs ended without success. The oldest is of <TimeText at={missing.since} />.
          </>,
        )}
      <p role="status">
        {missed + missing.count === 0
          ? 'No interval was missed, and no requested interval is without data.'
          : [
              ...(withoutData > 0
                ? [
                    `${plural(withoutData, 'interval')} will stay without data until you export them.`,
                  ]
                : []),
              ...(heals > 0
                ? [`Sluice exports ${plural(heals, 'interval')} by itself once the cause is over.`]
                : []),
              ...(withoutData + heals === 0
                ? ['All of them are exported again now, oldest first.']
                : []),
            ].join(' ')}
      </p>
    </>
  );
}

export function DeleteExportButton({
  batchExport: { id, name },
  onDeleted,
}: Props & { readonly onDeleted?: () => void }) {
  const { api, may } = useConsole();
  if (!may('batch_export:write')) return null;
  const remove = () => api.remove('batch_exports/{id}', { id });
  return (
    <DeleteButton {...{ name, remove, ...(onDeleted && { onDeleted }) }} what="export">
      Its live runs and backfills are cancelled, and it never runs again. Files at the destination
      stay.
    </DeleteButton>
  );
}
