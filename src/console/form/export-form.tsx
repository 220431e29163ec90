import type { FormEvent } from 'react';
import type { BatchExport } from '../api-types.ts';
import type { ExportInput } from '../client.ts';
import { useConsole } from '../console-context.ts';
import { KeptDraftNotice } from '../parts/kept-draft-notice.tsx';
import { Failure } from '../parts/notice.tsx';
import { times } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { useAction } from '../use-action.ts';
import { useKeptDraft } from '../use-kept-draft.ts';
import { goTo } from '../use-route.ts';
import { DestinationFields } from './destination-fields.tsx';
import { attrsOf, bodyOf, type Draft, draftOf } from './draft.ts';
import { FieldsToCorrect, problemsOf, useFocusOnProblem } from './form-problems.tsx';
import type { ApiDescription } from './openapi.ts';
import type { PartProps } from './part-props.ts';
import { ScheduleFields } from './schedule-fields.tsx';
import { TextField } from './text-field.tsx';
import { WhatFields } from './what-fields.tsx';

interface Props {
  readonly description: ApiDescription;
  /** Null for a new one. */
  readonly batchExport: BatchExport | null;
}

/** Creates or changes an export. Shows problems at the fields that the API names. */
export function ExportForm({ description, batchExport }: Props) {
  const { client, say } = useConsole();
  const { draft, setDraft, kept, forget } = useKeptDraft(description, batchExport, () =>
    draftOf(description, batchExport, times),
  );
  const save = useAction(async () => {
    const body: ExportInput = bodyOf(description, draft, batchExport, times);
    const { id, name } = batchExport
      ? await client.updateExport(batchExport.id, body)
      : await client.createExport(body);
    forget();
    say(batchExport ? `${name} is changed.` : `${name} is created.`);
    goTo({ page: 'export', exportId: id, tab: batchExport ? 'settings' : 'runs' });
  });
  const form = useFocusOnProblem<HTMLFormElement>(save.failure);
  const { byField, rest } = problemsOf(save.failure, attrsOf(description, draft.type));
  const change = (part: Partial<Draft>) => setDraft((last) => ({ ...last, ...part }));
  const parts: PartProps = { description, draft, batchExport, errors: byField, onChange: change };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save.run();
  };
  return (
    <form ref={form} className="export-form" onSubmit={submit} noValidate>
      <KeptDraftNotice kept={kept} />
      <section className="card panel">
        <TextField
          attr="name"
          label="Name"
          value={draft.name}
          error={byField.get('name')}
          onChange={(name) => change({ name })}
          help="Shown in lists and alerts."
          input={{ 'aria-required': true }}
        />
      </section>
      <DestinationFields {...parts} />
      <ScheduleFields {...parts} />
      <WhatFields {...parts} />
      <Failure failure={rest} />
      <div className="row end">
        <FieldsToCorrect count={byField.size} />
        <a
          className="button"
          onClick={forget}
          href={hrefOf(
            batchExport
              ? { page: 'export', exportId: batchExport.id, tab: 'settings' }
              : { page: 'exports' },
          )}
        >
          Discard
        </a>
        <button type="submit" className="primary" disabled={save.busy}>
          {batchExport ? 'Save changes' : 'Create export'}
        </button>
      </div>
    </form>
  );
}
