import { type KeyboardEvent, useState } from 'react';
import { cancelBackfill, startBackfill } from '../api.ts';
import type { Backfill, BackfillPreview, BackfillRequest, BatchExport } from '../api-types.ts';
import { useAction, useConsole, useResource, useSay } from '../use-api.ts';
import { formatBytes, formatCount, plural } from '../numbers.ts';
import { AskButton, ConfirmDialog } from '../parts/buttons.tsx';
import { Empty, Failure, Pending } from '../parts/notice.tsx';
import { CursorPager } from '../parts/pager.tsx';
import { IntervalText, localTimes, TimeText } from '../parts/time-text.tsx';
import { useQuery } from '../use-route.ts';
import { Choice, LocalTimeInput, onSubmit, TextField } from '../form/inputs.tsx';
import { fieldsIn } from '../form/fields.ts';
import { problemsOf } from '../form/form-problems.tsx';
import { describeGoing } from '../going-rows.ts';
import { GoingRows, mayRemoveRows, removal, RemovalText } from '../parts/run-problem.tsx';
import { readLocalInput } from '../times.ts';

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
          <CancelButton {...{ exportId, backfill }} />
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

function CancelButton({ exportId, backfill }: ItemProps) {
  const { api } = useConsole();
  const first: { running: 'cancel' | 'finish' } = { running: 'cancel' };
  return (
    <AskButton
      className="small last"
      button="Cancel"
      title="Cancel this backfill?"
      verb="Cancel the backfill"
      dismiss="Keep it"
      danger
      draft={first}
      work={async ({ running }) => {
        await cancelBackfill(api, exportId, backfill.id, running);
        return 'The backfill is cancelled.';
      }}
    >
      {({ draft, change }) => (
        <fieldset>
          <legend>Live runs</legend>
          {liveRuns.map(([running, title]) => (
            <label key={running} className="choice">
              <input
                type="radio"
                name="running"
                checked={draft.running === running}
                onChange={() => change({ running })}
              />
              <strong>{title}</strong>
            </label>
          ))}
        </fieldset>
      )}
    </AskButton>
  );
}

const liveRuns = [
  ['cancel', 'Cancel them too'],
  ['finish', 'Let them finish'],
] as const;

export interface BackfillStart {
  readonly start: string;
  readonly end: string;
  readonly reprocess: Backfill['reprocess'];
}

interface Props {
  readonly batchExport: BatchExport;
  readonly initial?: BackfillStart;
}

interface Draft {
  readonly start: string;
  readonly end: string;
  readonly order: Backfill['order'];
  readonly reprocess: Backfill['reprocess'];
  readonly missingRows: Backfill['missing_rows'];
  readonly concurrency: string;
}

const blank: Draft = {
  start: '',
  end: '',
  order: 'oldest_first',
  reprocess: 'failed',
  missingRows: 'keep',
  concurrency: '',
};

const reprocessing = [
  ['failed', 'Only those without data'],
  ['all', 'All, also those already exported'],
  ['missing', 'Only those without data that were asked for'],
  ['none', 'Only those that never ran'],
] as const;
const missingRowsChoices = [
  ['keep', 'Keep them: the run fails, and the files stay'],
  ['drop', 'Remove them from the files'],
] as const;
const orders = [
  ['oldest_first', 'Oldest first'],
  ['newest_first', 'Newest first'],
] as const;

/** Asks for a range, shows a preview, then starts the backfill. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
export function BackfillForm({ batchExport, initial }: Props) {
  const { api } = useConsole();
  const say = useSay();
  const [draft, setDraft] = useState(() => (initial ? draftOf(initial) : blank));
  const [preview, setPreview] = useState<BackfillPreview | null>(null);
  const [asking, setAsking] = useState(false);
  const look = useAction(async () => {
    setPreview(
      (await api.post(
        'batch_exports/{id}/backfill',
        { id: batchExport.id },
        { ...requestOf(draft), dry_run: true },
      )) as BackfillPreview,
    );
  });
  const isDrop = draft.missingRows === 'drop';
  const start = useAction(async () => {
    const { backfill_id: id, backfill_total_runs: runs } = await startBackfill(
      api,
      batchExport.id,
      { ...requestOf(draft), ...(isDrop && { shown_rows: preview?.totals.would_go ?? null }) },
    );
    if (runs === 0 || id === undefined) say('There was nothing to export.');
    else {
      say('The backfill has started.', () => cancelBackfill(api, batchExport.id, id, 'cancel'));
    }
    setAsking(false);
    setPreview(null);
    setDraft(blank);
  });
  const change = (part: Partial<Draft>) => {
    setDraft({ ...draft, ...part });
    setPreview(null);
    look.clear();
    start.clear();
  };
  const submit = onSubmit(() => {
    if (preview && mayRemoveRows(preview, draft.missingRows)) setAsking(true);
    else if (preview?.total_runs !== 0) void (preview ? start : look).run();
  });
  const { byField, rest } = problemsOf(look.failure ?? start.failure, ['start_at', 'end_at']);
  const field = fieldsIn(draft, change, byField);
  return (
    <>
      <form className="card panel" onSubmit={submit} noValidate>
        <h2>Start a backfill</h2>
        <div className="grid">
          <LocalTimeInput {...field('start', 'From', 'start_at')} />
          <LocalTimeInput {...field('end', 'To', 'end_at')} />
          <Choice {...field('reprocess', 'Intervals')} choices={reprocessing} />
          <Choice {...field('order', 'Order')} choices={orders} />
          <Choice
            {...field(
              'missingRows',
              'Delivered rows that the source no longer has',
              'missing_rows',
            )}
            choices={missingRowsChoices}
          />
          <TextField
            {...field('concurrency', 'Maximum runs at a time')}
            input={{ type: 'number', min: 1, max: 100, placeholder: 'default' }}
          />
        </div>
        <Failure failure={rest} />
        {preview && <Preview preview={preview} missingRows={draft.missingRows} />}
        <div className="row">
          {preview && preview.total_runs > 0 ? (
            <button
              type="submit"
              className="primary"
              aria-disabled={start.busy}
              onKeyDown={ignoreHeldKey}
            >
              Start {plural(preview.total_runs, 'run')}
            </button>
          ) : (
            <button
              type="submit"
              aria-disabled={look.busy || preview !== null}
              onKeyDown={ignoreHeldKey}
            >
              Preview
            </button>
          )}
        </div>
      </form>
      {asking && preview && (
        <ConfirmDialog {...removal} action={start} onClose={() => setAsking(false)}>
          <RemovalText
            going={describeGoing(preview.totals, 'drop')}
            what={plural(preview.total_runs, 'interval')}
          />
        </ConfirmDialog>
      )}
    </>
  );
}

function Preview({
  preview,
  missingRows,
}: {
  preview: BackfillPreview;
  missingRows: Backfill['missing_rows'];
}) {
  const { start_at, end_at, total_runs, skipped, already_completed } = preview;
  const { estimated_rows: rows, estimated_bytes: bytes } = preview;
  if (total_runs === 0) {
    return (
      <p role="status">
        <strong>0 runs.</strong> Each of the {plural(skipped, 'interval')} of this range is already
        exported or has a run. To export them again, choose “{reprocessing[1][1]}”.
      </p>
    );
  }
  return (
    <div className="preview" role="status">
      <p>
        <strong>{plural(total_runs, 'run')}</strong> over{' '}
        <IntervalText start={start_at} end={end_at} />
        {skipped > 0 && `, ${plural(skipped, 'interval')} skipped`}
        {rows !== null && `, about ${formatCount(rows)} rows`}
        {bytes !== null && ` and ${formatBytes(bytes)}`}.
      </p>
      {already_completed.length > 0 && (
        <p className="muted">Already exported: {plural(already_completed.length, 'interval')}.</p>
      )}
      {preview.totals.delivered_rows > 0 && (
        <GoingRows preview={preview} missingRows={missingRows} />
      )}
    </div>
  );
}

/** The button starts what it has just previewed only if it is pressed again. */
function ignoreHeldKey(event: KeyboardEvent): void {
  if (event.repeat) event.preventDefault();
}

function draftOf({ start, end, reprocess }: BackfillStart): Draft {
  return {
    ...blank,
    start: localTimes.inputValue(start),
    end: localTimes.inputValue(end),
    reprocess,
  };
}

function requestOf({
  start,
  end,
  order,
  reprocess,
  missingRows,
  concurrency,
}: Draft): BackfillRequest {
  return {
    start_at: readLocalInput(start),
    end_at: readLocalInput(end),
    order,
    reprocess,
    missing_rows: missingRows,
    ...(concurrency === '' ? {} : { concurrency: Number(concurrency) }),
  };
}
