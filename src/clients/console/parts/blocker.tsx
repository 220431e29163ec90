import { useState } from 'react';
import type { BatchExport, Coverage } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { describeBlocker, needsOperator, reprocessOf } from '../coverage-blocker.ts';
import { TextField } from '../form/text-field.tsx';
import { useNow } from '../now.ts';
import { plural } from '../numbers.ts';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { ConfirmDialog, DialogButton } from './dialog.tsx';
import { RunNowButton } from './export-actions.tsx';
import { ExportAgainButton } from './export-again.tsx';
import { IntervalText, TimeText } from './time-text.tsx';
import { useSay } from './toasts.tsx';

const dayMs = 86_400_000;

interface Props {
  readonly batchExport: BatchExport;
}

type Range = NonNullable<Coverage['blocker']>;

/** The intervals that hold the high-water mark of an export, and the actions of an operator. Nothing if it needs no one. */
export function Blocker({ batchExport }: Props) {
  const { api, may } = useConsole();
  const now = useNow();
  const {
    id,
    mode,
    high_water_mark: mark,
    latest_runs: runs,
    paused,
    paused_reason: reason,
  } = batchExport;
  const { data } = useResource({
    key: id,
    // An action that moves the mark or fills a hole shows in the export first.
    version: [mark, runs[0]?.id, runs[0]?.status].join(),
    load: (signal) => {
      // Of a single day: the blocker is the same.
      const from = new Date(Date.now() - dayMs).toISOString();
      return api.get('batch_exports/{id}/coverage', { id, from }, signal);
    },
    pollMs: () => 15_000,
  });
  const blocker = data?.blocker ?? null;
  if (blocker === null || !needsOperator(blocker, now)) return null;
  // The page says already that it is paused.
  if (paused && ['paused', 'never_asked'].includes(blocker.state)) return null;
  const isHealing = blocker.state === 'failed' && blocker.healing > 0;
  const nextProbe = isHealing ? (data?.healing?.next_probe_at ?? null) : null;
  return (
    <section className="row alert is-Failed" aria-label="What holds the export back">
      <div>
        <p>
          <strong>Complete only up to here:</strong>{' '}
          <IntervalText start={blocker.start} end={blocker.end} />
        </p>
        <p>
          {describeBlocker(blocker, paused && reason === null)}
          {nextProbe !== null && (
            <>
              {' '}
              It looks next at <TimeText at={nextProbe} />.
            </>
          )}
        </p>
      </div>
      {may('batch_export:write') && (
        <div className="row last">
          {mode === 'append' ? (
            <ExportAgainButton
              exportId={id}
              again={{ ...blocker, reprocess: reprocessOf(blocker) }}
            />
          ) : (
            <RunNowButton batchExport={batchExport} />
          )}
          <AcceptButton exportId={id} blocker={blocker} />
        </div>
      )}
    </section>
  );
}

interface PartProps {
  readonly exportId: string;
  readonly blocker: Range;
}

function AcceptButton(props: PartProps) {
  return (
    <DialogButton dialog={(onClose) => <AcceptDialog {...props} onClose={onClose} />}>
      Accept as it is
    </DialogButton>
  );
}

function AcceptDialog({
  exportId,
  blocker,
  onClose,
}: PartProps & { readonly onClose: () => void }) {
  const { api } = useConsole();
  const say = useSay();
  const [reason, setReason] = useState('');
  const { start, end, intervals, state } = blocker;
  const accept = useAction(async () => {
    const { accepted } = await api.post(
      'batch_exports/{id}/coverage/accept',
      { id: exportId },
      { from: start, to: end, reason: reason.trim() === '' ? null : reason },
    );
    say(`${plural(accepted, 'interval')} accepted.`);
    onClose();
  });
  return (
    <ConfirmDialog
      title={`Accept ${plural(intervals, 'interval')}?`}
      verb="Accept as it is"
      danger
      action={accept}
      onClose={onClose}
    >
      <p>
        <IntervalText start={start} end={end} />
      </p>
      <p>
        {state === 'unsettled'
          ? 'The files stay as they are, and the export counts as complete here although rows may still arrive.'
          : state === 'late_rows'
            ? 'The files stay as they are, and Sluice no longer looks for late rows here.'
            : 'No files are written, and the export counts as complete here although these intervals have no data.'}{' '}
        You can still export them later.
      </p>
      <TextField
        attr="reason"
        label="Reason"
        help="Optional. Kept in the activity of the export."
        value={reason}
        onChange={setReason}
        input={{ maxLength: 1_000 }}
      />
    </ConfirmDialog>
  );
}
