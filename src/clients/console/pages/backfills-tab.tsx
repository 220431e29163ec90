import { useState } from 'react';
import { cancelBackfill } from '../api.ts';
import type { Backfill, BatchExport } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { formatBytes, plural } from '../numbers.ts';
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { CursorPager } from '../parts/pager.tsx';
import { IntervalText, TimeText } from '../parts/time-text.tsx';
import { useAction } from '../use-action.ts';
import { useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';
import { BackfillForm } from './backfill-form.tsx';
import { useSay } from '../parts/toasts.tsx';

/** The backfills of an export, and the form for another. */
export function BackfillsTab({ batchExport }: { batchExport: BatchExport }) {
  const { api, may } = useConsole();
  const { id, mode } = batchExport;
  const { query, setQuery } = useQuery();
  const cursor = query.get('cursor');
  const { data, failure, reload } = useResource({
    key: `${id} ${cursor}`,
    load: (signal) =>
      api.get(
        'batch_exports/{batch_export_id}/backfills',
        { batch_export_id: id, cursor, limit: 20 },
        signal,
      ),
    pollMs: (page) => (page?.results.some(isRunning) ? 3_000 : 15_000),
  });
  return (
    <section aria-label="Backfills">
      {mode === 'append' && may('batch_export:write') && <BackfillForm batchExport={batchExport} />}
      <Pending {...{ data, failure, reload }} />
      {data?.results.length === 0 && (
        <Empty title="No backfills yet">
          <p>
            {mode === 'append'
              ? 'A backfill exports the intervals of a past range, or exports them again.'
              : `An export of mode ${mode} has no past. Run now makes one of its newest interval.`}
          </p>
        </Empty>
      )}
      <ul className="stack">
        {data?.results.map((backfill) => (
          <BackfillItem key={backfill.id} exportId={id} backfill={backfill} />
        ))}
      </ul>
      {data && <CursorPager page={data} onMove={(cursor) => setQuery({ cursor })} />}
    </section>
  );
}

function isRunning({ status }: Backfill): boolean {
  return status === 'Running';
}

interface ItemProps {
  readonly exportId: string;
  readonly backfill: Backfill;
}

function BackfillItem({ exportId, backfill }: ItemProps) {
  const { may } = useConsole();
  const { status, start_at, end_at, finished_runs, total_runs, failed_runs, eta } = backfill;
  const titleId = `backfill-${backfill.id}`;
  return (
    <li className="card stack backfill">
      <div className="row">
        <h2 id={titleId}>
          <IntervalText start={start_at} end={end_at} />
        </h2>
        <span className={`badge is-${status}`}>{status}</span>
        {isRunning(backfill) && may('batch_export:write') && (
          <DialogButton
            className="small last"
            dialog={(onClose) => <CancelDialog {...{ exportId, backfill, onClose }} />}
          >
            Cancel
          </DialogButton>
        )}
      </div>
      <progress
        className={failed_runs > 0 ? 'has-failures' : undefined}
        max={1}
        value={backfill.progress}
        aria-labelledby={titleId}
      />
      <p className="muted small">
        {finished_runs.toLocaleString('en-US')} of {plural(total_runs, 'run')}
        {failed_runs > 0 && <span className="bad-text"> · {failed_runs} failed</span>}
        {eta !== null && (
          <>
            {' '}
            · done <TimeText at={eta} as="relative" />
          </>
        )}
        {` · ${plural(backfill.records_completed, 'row')}, ${formatBytes(backfill.bytes_exported)}`}
        {!isRunning(backfill) &&
          backfill.records_completed === 0 &&
          finished_runs > failed_runs && (
            <span className="warn-text">
              {' '}
              · the source has no rows in these intervals for this export
            </span>
          )}
        {' · started '}
        <TimeText at={backfill.created_at} as="ago" />
      </p>
    </li>
  );
}

function CancelDialog(props: ItemProps & { readonly onClose: () => void }) {
  const { exportId, backfill, onClose } = props;
  const { api } = useConsole();
  const say = useSay();
  const [running, setRunning] = useState<'cancel' | 'finish'>('cancel');
  const cancel = useAction(async () => {
    await cancelBackfill(api, exportId, backfill.id, running);
    say('The backfill is cancelled.');
    onClose();
  });
  const choice = (value: 'cancel' | 'finish', title: string) => (
    <label className="choice">
      <input
        type="radio"
        name="running"
        checked={running === value}
        onChange={() => setRunning(value)}
      />
      <strong>{title}</strong>
    </label>
  );
  return (
    <ConfirmDialog
      title="Cancel this backfill?"
      verb="Cancel the backfill"
      dismiss="Keep it"
      danger
      action={cancel}
      onClose={onClose}
    >
      <fieldset>
        <legend>Live runs</legend>
        {choice('cancel', 'Cancel them too')}
        {choice('finish', 'Let them finish')}
      </fieldset>
    </ConfirmDialog>
  );
}
