import type { FormEvent, ReactNode } from 'react';
import { useDescription } from '../console-context.ts';
import { Choice } from '../form/choice.tsx';
import { CodeField } from '../form/code-field.tsx';
import { modelChoices } from '../form/draft.ts';
import { FieldsToCorrect, problemsOf, useFocusOnProblem } from '../form/form-problems.tsx';
import { fieldsIn } from '../form/fields-in.ts';
import { TextField } from '../form/text-field.tsx';
import type { LabState } from '../use-lab.ts';
import { LabResult } from './lab-result.tsx';
import { Failure } from './notice.tsx';

interface Props {
  readonly lab: LabState;
  readonly title: string;
  /** The API's names of fields that show their errors outside the lab. */
  readonly shownElsewhere?: readonly string[];
  readonly children: ReactNode;
}

const sources = [
  ['newest', 'The newest rows of the source'],
  ['rows', 'Rows that I write'],
] as const;

/** Tries a chain on some rows and shows what each step does. */
export function Lab({ lab, title, shownElsewhere = [], children }: Props) {
  const { draft, change, busy, failure, result } = lab;
  const description = useDescription();
  const installation = description.data?.installation ?? null;
  const model = draft.model || (installation?.default_model ?? '');
  const models = modelChoices({ installation }, model);
  const form = useFocusOnProblem<HTMLFormElement>(failure);
  const { byField, rest } = problemsOf(failure, ['limit', 'rows', 'model', ...shownElsewhere]);
  const field = fieldsIn(draft, change, byField);
  const elsewhere = shownElsewhere.filter((attr) => byField.has(attr)).length;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void lab.run();
  };
  return (
    <section className="card panel lab" aria-label={title}>
      <h2>{title}</h2>
      {children}
      <form ref={form} onSubmit={submit} noValidate>
        <div className="grid">
          <Choice {...field('source', 'Try it on')} choices={sources} />
          {models.length > 1 && (
            <Choice {...field('model', 'Model')} value={model} choices={models} />
          )}
          {draft.source === 'newest' && (
            <TextField
              {...field('limit', 'Number of rows')}
              input={{ type: 'number', min: 1, max: 100 }}
            />
          )}
        </div>
        {draft.source === 'rows' && (
          <CodeField
            {...field('rows', 'Rows')}
            placeholder='{"event": "signup", "properties": {"plan": "pro"}}'
            help="One JSON object per line, or a list of them."
          />
        )}
        <Failure failure={rest} />
        <div className="row">
          <button type="submit" aria-disabled={busy}>
            {busy ? 'Running…' : 'Run the lab'}
          </button>
          <FieldsToCorrect count={elsewhere} />
        </div>
      </form>
      <div aria-live="polite">{result && <LabResult result={result} />}</div>
    </section>
  );
}
