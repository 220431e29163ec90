import { useEffect, useRef, useState } from 'react';
import { useAction, useConsole, useDescription, useResource } from '../use-api.ts';
import { Failure, Frame, NeedsScope, Pending } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { goTo } from '../use-route.ts';
import { ExportZone, localTimes, TimeText } from '../parts/time-text.tsx';
import type { BatchExport, RowPreview } from '../api-types.ts';
import { listSteps } from '../api.ts';
import { onSubmit } from '../form/inputs.tsx';
import { ConfirmDialog } from '../parts/buttons.tsx';
import { TryDestination, TryRows, useTrial } from '../parts/try-out.tsx';
import { checkDraft, withIncomplete } from '../form/check-draft.ts';
import {
  bodyOf,
  type Draft,
  draftOf,
  type ExportInput,
  type PartProps,
  rowsOf,
} from '../form/draft.ts';
import { FirstFields, MoreFields } from '../form/export-fields.tsx';
import { findIncomplete, problemsOf, ProblemSummary } from '../form/form-problems.tsx';
import { inWords, labelsOf } from '../form/form-words.ts';
import type { ApiDescription } from '../form/openapi.ts';
import { formatCell } from '../numbers.ts';
import { Fact } from '../parts/tables.tsx';

export function NewExportPage() {
  const description = useDescription();
  return (
    <Frame above={[['Exports', { page: 'exports' }]]} title="New export">
      <NeedsScope scope="batch_export:write">
        <Pending {...description} lines={8} />
        {description.data && <ExportForm description={description.data} batchExport={null} />}
      </NeedsScope>
    </Frame>
  );
}

export function EditExportPage({ exportId }: { exportId: string }) {
  const { api } = useConsole();
  const description = useDescription();
  const loaded = useResource({
    key: exportId,
    // Loaded once: a later answer must not overwrite what the operator has typed.
    load: (signal) => api.get('batch_exports/{id}', { id: exportId }, signal),
  });
  const { data } = loaded;
  const above = [
    ['Exports', { page: 'exports' }],
    [data?.name ?? 'Export', { page: 'export', exportId, tab: 'settings' }],
  ] as const;
  return (
    <ExportZone value={data?.timezone ?? 'UTC'}>
      <Frame above={above} title="Edit" tab={data ? `Edit ${data.name}` : 'Edit'}>
        <Pending {...loaded} what="export" lines={8} />
        <NeedsScope scope="batch_export:write">
          {data && <Pending {...description} lines={8} />}
          {data && description.data && (
            <ExportForm key={exportId} description={description.data} batchExport={data} />
          )}
        </NeedsScope>
      </Frame>
    </ExportZone>
  );
}

interface Props {
  readonly description: ApiDescription;
  readonly batchExport: BatchExport | null;
}

const none: ReadonlyMap<string, string> = new Map();

/**
 * Creates or changes an export. Shows all problems at once, each at its field: those that the page finds and
 * those that the API names. The destination and the rows can be tried before anything is saved.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
function ExportForm({ description, batchExport }: Props) {
  const { api, may } = useConsole();
  const [draft, setDraft] = useState(() => draftOf(description, batchExport, localTimes));
  const [found, setFound] = useState(none);
  const form = useRef<HTMLFormElement>(null);
  const id = batchExport?.id ?? null;
  const bodyNow = (): ExportInput => bodyOf(description, draft, batchExport, localTimes);

  const chain = useResource({
    key: 'chain',
    load: async (signal) => (may('plugin:read') ? listSteps(api, signal) : null),
  });
  const enabledSteps = (chain.data?.results ?? [])
    .filter(({ enabled }) => enabled)
    .map(({ id: step, name }) => name ?? `step ${step}`);

  const save = useAction(async () => {
    const incomplete = findIncomplete(form.current);
    const problems = checkDraft(description, draft, incomplete, enabledSteps.length > 0);
    const complete = withIncomplete(bodyNow(), incomplete);
    // The API takes an export that does not say it, but none that says nothing.
    const body = problems.has('transformations')
      ? { ...complete, transformations: null }
      : complete;
    const answer = batchExport
      ? api.patch('batch_exports/{id}', { id: batchExport.id }, body as never)
      : api.post('batch_exports', {}, body as never);
    // With those that the API finds: a reader is shown all problems once.
    const saved = await answer.finally(() => setFound(problems));
    goTo({ page: 'export', exportId: saved.id, tab: batchExport ? 'settings' : 'runs' });
    return `${saved.name} is ${batchExport ? 'changed' : 'created'}.`;
  });
  const test = useTrial(async () => {
    const { destination, model } = bodyNow();
    const body = { destination, model } as never;
    const tested =
      id === null
        ? api.post('batch_exports/test', {}, body)
        : api.post('batch_exports/{id}/test', { id }, body);
    return (await tested).steps;
  });
  const preview = useTrial(() => {
    const body = { ...(id && { id }), ...rowsOf(bodyNow()) } as never;
    return api.post('batch_exports/preview', {}, body);
  });

  const actions = [save, test, preview];
  const run = (action: (typeof actions)[number]) => {
    for (const other of actions) other.clear();
    setFound(none);
    void action.run();
  };
  const failed = actions.find((action) => action.failure);
  const failure = failed?.failure ?? null;
  const labels = labelsOf(description, draft.type);
  const { byField, rest } = problemsOf(failure && inWords(failure, labels), [...labels.keys()]);
  const errors = new Map([...byField, ...found]);
  /** A problem of no field is beside the button that was pressed. */
  const restOf = (action: (typeof actions)[number]) => (action === failed ? rest : null);

  const change = (part: Partial<Draft>) => {
    // A test says nothing about other settings.
    if (part.values !== undefined || part.type !== undefined) test.forget();
    setDraft((last) => ({ ...last, ...part }));
  };
  const parts: PartProps = { description, draft, batchExport, errors, onChange: change };
  const [asking, setAsking] = useState(false);
  const hasFailed = test.result?.some(({ passed }) => !passed) ?? false;
  const submit = onSubmit(() => (hasFailed ? setAsking(true) : run(save)));
  const verb = batchExport ? 'Save changes' : 'Create export';
  return (
    <>
      <form ref={form} className="export-form" onSubmit={submit} noValidate>
        <ProblemSummary
          byField={errors}
          labels={labels}
          attempt={failure ?? (found.size > 0 ? found : null)}
        />
        <div className="form-sides">
          <div>
            <FirstFields {...parts} steps={enabledSteps} />
            <MoreFields {...parts} />
          </div>
          <Written body={bodyNow()} exportId={id} model={draft.model} rows={preview.result} />
        </div>
        <div className="trials">
          <TryDestination
            {...{ busy: test.busy, failure: restOf(test), steps: test.result }}
            onTry={() => run(test)}
          />
          <TryRows
            {...{ busy: preview.busy, failure: restOf(preview), rows: preview.result }}
            onTry={() => run(preview)}
          />
        </div>
        <Failure failure={restOf(save)} />
        <div className="row end">
          <a
            className="button"
            href={hrefOf(
              batchExport
                ? { page: 'export', exportId: batchExport.id, tab: 'settings' }
                : { page: 'exports' },
            )}
          >
            Discard
          </a>
          <button type="submit" className="primary" aria-disabled={save.busy}>
            {verb}
          </button>
        </div>
      </form>
      {asking && (
        <ConfirmDialog
          title="The test of the destination failed"
          verb={`${verb} anyway`}
          danger
          action={{
            ...save,
            run: async () => {
              setAsking(false);
              run(save);
            },
          }}
          onClose={() => setAsking(false)}
        >
          <p>
            Its runs will fail too until that is fixed. Correct the destination first, or go on.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

interface WrittenProps {
  readonly body: ExportInput;
  /** Null for a new export. */
  readonly exportId: string | null;
  readonly model: string;
  /** The rows that were tried last; null: none. */
  readonly rows: RowPreview | null;
}

/** Time without a key before the service is asked. */
const pauseMs = 500;
const shownColumns = 8;

/** The fields that decide the key and the time of a file. */
const ofKeys = 'prefix file_name file_format compression max_file_size_mb partition_by'.split(' ');
const ofTimes = ['interval', 'timezone', 'offset_day', 'offset_hour', 'start_at', 'end_at'];

const pick = (whole: Readonly<Record<string, unknown>>, names: readonly string[]) =>
  Object.fromEntries(names.flatMap((name) => (name in whole ? [[name, whole[name]]] : [])));

/** The result that the export will write: its first key, its next run, and a row. */
function Written({ body, exportId, model, rows }: WrittenProps) {
  const { api } = useConsole();
  const config = pick(body.destination.config, ofKeys);
  const settledDraft = useSettled(
    JSON.stringify({ ...pick(body, ofTimes), model, destination: { config } }),
  );
  const file = useResource({
    key: settledDraft,
    load: (signal) => api.post('batch_exports/query', {}, JSON.parse(settledDraft), signal),
  });
  const sample = useResource({
    key: model,
    load: async (signal) => {
      if (model === '') return null;
      const whose = exportId === null ? { model } : { id: exportId };
      return api.post('batch_exports/preview', {}, { ...whose, limit: 1 } as never, signal);
    },
  });
  const { first_key: key = null, next_run_at: at = null } = file.data ?? {};
  const shown = rows ?? sample.data;
  const row = shown?.rows.at(-1);
  return (
    <aside className="card panel written" aria-label="What will be written">
      <h2>What will be written</h2>
      <dl>
        <Fact name="First file">{key === null ? <Open /> : <code>{key}</code>}</Fact>
        <Fact name="Next run">{at === null ? <Open /> : <TimeText at={at} />}</Fact>
        <Fact name="A row">
          {row ? (
            <ul>
              {shown?.columns.slice(0, shownColumns).map(({ name }, column) => (
                <li key={name} className="one-line">
                  <code>{name}</code> {formatCell(row[column])}
                </li>
              ))}
              {shown && shown.columns.length > shownColumns && (
                <li className="muted">and {shown.columns.length - shownColumns} more columns</li>
              )}
            </ul>
          ) : (
            <span className="muted">
              {sample.failure
                ? '“Preview rows” says why there is none.'
                : shown
                  ? 'none yet'
                  : 'not read yet'}
            </span>
          )}
        </Fact>
      </dl>
    </aside>
  );
}

const Open = () => <span className="muted">open until the fields are complete</span>;

/** The text once it has not changed for a while. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
