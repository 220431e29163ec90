import { type FormEvent, useState } from 'react';
import type { Step } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { AppliedBy } from '../parts/applied-by.tsx';
import { Lab } from '../parts/lab.tsx';
import { Failure } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { useAction } from '../use-action.ts';
import { useLab } from '../use-lab.ts';
import { goTo } from '../use-route.ts';
import { Choice } from './choice.tsx';
import { ConfigField } from './config-field.tsx';
import { fieldsIn } from './fields-in.ts';
import { FieldsToCorrect, problemsOf, useFocusOnProblem } from './form-problems.tsx';
import {
  fieldsOfPlugin,
  newStepOf,
  type StepDraft,
  type StepPlugin,
  stepAttr,
  stepAttrs,
  stepChangeOf,
  stepDraftOf,
  trialStepOf,
} from './step-draft.ts';
import { TextField } from './text-field.tsx';
import { useSay } from '../parts/toasts.tsx';

interface Props {
  readonly plugin: StepPlugin;
  /** Null for a new one. */
  readonly step: Step | null;
  /** The order of a new step. */
  readonly order: number;
}

/** Creates or changes a step of the chain, and tries it in the lab. Without the right to write: shows it. */
export function StepForm({ plugin, step, order }: Props) {
  const { api, may } = useConsole();
  const say = useSay();
  const [draft, setDraft] = useState(() => stepDraftOf(plugin, step));
  /** Of an attempt to save without the decision whether the step is enabled. */
  const [undecided, setUndecided] = useState<object | null>(null);
  const readOnly = !may('plugin:write');
  const lab = useLab(() => {
    save.clear();
    return { configs: [trialStepOf(plugin, draft)] };
  });
  const save = useAction(async () => {
    if (draft.enabled === '') return lab.check();
    const { name } = step
      ? await api.patch(
          'pipeline_transformation_configs/{id}',
          { id: step.id },
          stepChangeOf(plugin, draft),
        )
      : await api.post('pipeline_transformation_configs', {}, newStepOf(plugin, draft, order));
    say(`${name} is ${step ? 'changed' : 'created'}.`);
    goTo({ page: 'transformations' });
  });
  const attrs = stepAttrs(plugin);
  const failure = save.failure ?? lab.failure;
  const form = useFocusOnProblem<HTMLFormElement>(failure ?? undecided);
  const { byField: refused } = problemsOf(failure, attrs);
  const isUndecided = undecided !== null && draft.enabled === '';
  const byField = isUndecided ? new Map([...refused, ['enabled', 'Choose one.']]) : refused;
  const change = (part: Partial<StepDraft>) => setDraft((last) => ({ ...last, ...part }));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    lab.clear();
    setUndecided(draft.enabled === '' ? {} : null);
    void save.run();
  };
  return (
    <>
      <form ref={form} className="export-form" onSubmit={submit} noValidate>
        <fieldset disabled={readOnly}>
          <section className="card panel">
            <h2>{plugin.name || 'Plugin that is no longer installed'}</h2>
            {plugin.description !== null && <p className="muted">{plugin.description}</p>}
            <SettingsFields {...{ plugin, step, draft, errors: byField, onChange: change }} />
          </section>
          <NamingFields {...{ plugin, draft, errors: byField, onChange: change }} />
        </fieldset>
        <Failure failure={problemsOf(save.failure, attrs).rest} />
        <div className="row end">
          <FieldsToCorrect count={byField.size} />
          <a className="button" href={hrefOf({ page: 'transformations' })}>
            {readOnly ? 'Back' : 'Discard'}
          </a>
          {!readOnly && (
            <button type="submit" className="primary" aria-disabled={save.busy}>
              {step ? 'Save changes' : 'Create step'}
            </button>
          )}
        </div>
      </form>
      {!readOnly && (
        <Lab lab={lab} title="Try these settings" shownElsewhere={attrs}>
          <p className="muted">
            This step alone, as it is in the form. Nothing is stored. If it has a secret, enter the
            secret here too: the lab does not read stored ones.
          </p>
        </Lab>
      )}
    </>
  );
}

interface PartProps {
  readonly plugin: StepPlugin;
  readonly draft: StepDraft;
  /** By the API's name of the field. */
  readonly errors: ReadonlyMap<string, string>;
  readonly onChange: (part: Partial<StepDraft>) => void;
}

function SettingsFields({
  plugin,
  step,
  draft,
  errors,
  onChange,
}: PartProps & { step: Props['step'] }) {
  return (
    <div className="grid">
      {fieldsOfPlugin(plugin).map((field) => (
        <ConfigField
          key={field.name}
          field={field}
          attr={stepAttr(field.name)}
          draft={draft}
          error={errors.get(stepAttr(field.name))}
          hasSecret={step?.details.config[field.name] !== undefined}
          onChange={onChange}
        />
      ))}
    </div>
  );
}

function NamingFields({ plugin, draft, errors, onChange }: PartProps) {
  const field = fieldsIn(draft, onChange, errors);
  return (
    <section className="card panel">
      <h2>Step</h2>
      <div className="grid">
        <TextField {...field('name', 'Name')} input={{ placeholder: plugin.name }} />
        <TextField {...field('description', 'Description')} />
      </div>
      <Choice
        {...field('enabled', 'Enabled')}
        choices={[
          ...(draft.enabled === '' ? [['', 'Choose…'] as const] : []),
          ['yes', 'Yes: it changes rows from the next run on'],
          ['no', 'No: it changes nothing yet'],
        ]}
        help={<AppliedBy />}
      />
    </section>
  );
}
