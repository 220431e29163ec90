import { useState } from 'react';
import type { Plugin, Step } from '../api-types.ts';
import { listSteps, wholeList } from '../api.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { Choice, onSubmit, TextField } from '../form/inputs.tsx';
import { fieldsIn } from '../form/fields.ts';
import {
  fieldsOfPlugin,
  pluginOf,
  stepAttr,
  stepAttrs,
  stepBodyOf,
  type StepDraft,
  stepDraftOf,
  type StepPlugin,
  trialStepOf,
} from '../form/step-draft.ts';
import { Failure, Frame, NeedsScope, Pending } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { goTo } from '../use-route.ts';
import { AppliedBy } from './transformations-page.tsx';
import { Lab, useLab } from '../parts/lab.tsx';
import { ConfigField } from '../form/config-fields.tsx';
import { FieldsToCorrect, problemsOf, useFocusOnProblem } from '../form/form-problems.tsx';

const above = [['Transformations', { page: 'transformations' }]] as const;

export function StepPage({ stepId }: { stepId: number }) {
  const { api } = useConsole();
  const step = useResource({
    key: `step ${stepId}`,
    // Loaded once: a later answer must not overwrite what the operator has typed.
    load: (signal) => api.get('pipeline_transformation_configs/{id}', { id: stepId }, signal),
  });
  return (
    <Frame above={above} title={step.data?.name ?? 'Step'}>
      <Pending {...step} what="step" lines={8} />
      {step.data && <StepForm plugin={pluginOf(step.data)} step={step.data} order={0} />}
    </Frame>
  );
}

/** The choice of a plugin, and the form of a new step. It becomes the last of the chain. */
export function NewStepPage() {
  const { api } = useConsole();
  const choice = useResource({
    key: 'new step',
    load: async (signal) => {
      const [plugins, steps] = await Promise.all([
        wholeList((page) => api.get('plugins', page, signal)),
        listSteps(api, signal),
      ]);
      const last = Math.max(0, ...steps.results.map(({ order }) => order));
      return { plugins: plugins.results, order: last + 1 };
    },
  });
  return (
    <Frame above={above} title="New step">
      <NeedsScope scope="plugin:write">
        <Pending {...choice} what="project" lines={8} />
        {choice.data && <NewStep {...choice.data} />}
      </NeedsScope>
    </Frame>
  );
}

function NewStep({ plugins, order }: { plugins: readonly Plugin[]; order: number }) {
  const [chosen, setChosen] = useState('');
  const plugin = plugins.find(({ id }) => String(id) === chosen);
  const choices = plugins.map(({ id, name, built_in }) => {
    return [String(id), built_in ? name : `${name} (own)`] as const;
  });
  return (
    <>
      <section className="card panel export-form">
        <Choice
          attr="plugin"
          label="Plugin"
          value={chosen}
          choices={[['', 'Choose…'], ...choices]}
          onChange={setChosen}
          help="What the step does. It cannot change later."
        />
      </section>
      {plugin && <StepForm key={plugin.id} plugin={plugin} step={null} order={order} />}
    </>
  );
}

interface Props {
  readonly plugin: StepPlugin;
  readonly step: Step | null;
  readonly order: number;
}

/** Creates or changes a step of the chain, and tries it in the lab. Without the right to write: shows it. */
function StepForm({ plugin, step, order }: Props) {
  const { api, may } = useConsole();
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
    const path = 'pipeline_transformation_configs';
    const body = stepBodyOf(plugin, draft, step === null);
    const { name } = step
      ? await api.patch(`${path}/{id}`, { id: step.id }, body)
      : await api.post(path, {}, { plugin: plugin.id, order, ...body });
    goTo({ page: 'transformations' });
    return `${name} is ${step ? 'changed' : 'created'}.`;
  });
  const attrs = stepAttrs(plugin);
  const failure = save.failure ?? lab.failure;
  const form = useFocusOnProblem<HTMLFormElement>(failure ?? undecided);
  const { byField: refused } = problemsOf(failure, attrs);
  const isUndecided = undecided !== null && draft.enabled === '';
  const byField = isUndecided ? new Map([...refused, ['enabled', 'Choose one.']]) : refused;
  const change = (part: Partial<StepDraft>) => setDraft((last) => ({ ...last, ...part }));
  const field = fieldsIn(draft, change, byField);
  const submit = onSubmit(() => {
    lab.clear();
    setUndecided(draft.enabled === '' ? {} : null);
    return save.run();
  });
  return (
    <>
      <form ref={form} className="export-form" onSubmit={submit} noValidate>
        <fieldset disabled={readOnly}>
          <section className="card panel">
            <h2>{plugin.name || 'Plugin that is no longer installed'}</h2>
            {plugin.description !== null && <p className="muted">{plugin.description}</p>}
            <div className="grid">
              {fieldsOfPlugin(plugin).map((one) => (
                <ConfigField
                  key={one.name}
                  field={one}
                  attr={stepAttr(one.name)}
                  draft={draft}
                  error={byField.get(stepAttr(one.name))}
                  hasSecret={step?.details.config[one.name] !== undefined}
                  onChange={change}
                />
              ))}
            </div>
          </section>
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
