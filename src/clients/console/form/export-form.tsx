import { type FormEvent, useRef, useState } from 'react';
import type { BatchExport } from '../api-types.ts';
import { listSteps } from '../api.ts';
import { useConsole } from '../console-context.ts';
import { ConfirmDialog } from '../parts/dialog.tsx';
import { Failure } from '../parts/notice.tsx';
import { localTimes } from '../parts/time-text.tsx';
import { TryDestination, TryRows, useTrial } from '../parts/try-out.tsx';
import { hrefOf } from '../route.ts';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { goTo } from '../use-route.ts';
import { checkDraft, withIncomplete } from './check-draft.ts';
import { bodyOf, type Draft, draftOf, type ExportInput, rowsOf } from './draft.ts';
import { FirstFields } from './first-fields.tsx';
import { problemsOf } from './form-problems.tsx';
import { inWords, labelsOf } from './form-words.ts';
import { MoreFields } from './more-fields.tsx';
import type { ApiDescription } from './openapi.ts';
import type { PartProps } from './part-props.ts';
import { findIncomplete, ProblemSummary } from './problem-summary.tsx';
import { useSay } from '../parts/toasts.tsx';
import { Written } from './written.tsx';

interface Props {
  readonly description: ApiDescription;
  /** Null for a new one. */
  readonly batchExport: BatchExport | null;
}

const none: ReadonlyMap<string, string> = new Map();

/**
 * Creates or changes an export. Shows all problems at once, each at its field: those that the page finds and
 * those that the API names. The destination and the rows can be tried before anything is saved.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
export function ExportForm({ description, batchExport }: Props) {
  const { api, may } = useConsole();
  const say = useSay();
  const [draft, setDraft] = useState(() => draftOf(description, batchExport, localTimes));
  /** The problems of the last attempt to save. */
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
    say(batchExport ? `${saved.name} is changed.` : `${saved.name} is created.`);
    goTo({ page: 'export', exportId: saved.id, tab: batchExport ? 'settings' : 'runs' });
  });
  const steps = useTrial(async () => {
    const { destination, model } = bodyNow();
    const body = { destination, model } as never;
    const tested =
      id === null
        ? api.post('batch_exports/test', {}, body)
        : api.post('batch_exports/{id}/test', { id }, body);
    return (await tested).steps;
  });
  const test = useAction(steps.work);
  const rows = useTrial(() => {
    const body = { ...(id && { id }), ...rowsOf(bodyNow()) } as never;
    return api.post('batch_exports/preview', {}, body);
  });
  const preview = useAction(rows.work);

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
    if (part.values !== undefined || part.type !== undefined) steps.clear();
    setDraft((last) => ({ ...last, ...part }));
  };
  const [asking, setAsking] = useState(false);
  const hasFailed = steps.result?.some(({ passed }) => !passed) ?? false;
  const parts: PartProps = { description, draft, batchExport, errors, onChange: change };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (hasFailed) setAsking(true);
    else run(save);
  };
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
          <Written body={bodyNow()} exportId={id} model={draft.model} rows={rows.result} />
        </div>
        <div className="trials">
          <TryDestination
            {...{ busy: test.busy, failure: restOf(test), steps: steps.result }}
            onTry={() => run(test)}
          />
          <TryRows
            {...{ busy: preview.busy, failure: restOf(preview), rows: rows.result }}
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
