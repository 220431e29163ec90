import { type ReactNode, useState } from 'react';
import type { Plugin } from '../api-types.ts';
import { listSteps, wholeList } from '../api.ts';
import { useConsole } from '../console-context.ts';
import { Choice } from '../form/choice.tsx';
import { pluginOf } from '../form/step-draft.ts';
import { StepForm } from '../form/step-form.tsx';
import { NeedsScope } from '../parts/needs-scope.tsx';
import { Loading, Trouble } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';

/** The form of an existing step. */
export function StepPage({ stepId }: { stepId: number }) {
  const { api } = useConsole();
  const { data, failure, reload } = useResource({
    key: `step ${stepId}`,
    // Loaded once: a later answer must not overwrite what the operator has typed.
    load: (signal) => api.get('pipeline_transformation_configs/{id}', { id: stepId }, signal),
  });
  return (
    <StepFrame title={data?.name ?? 'Step'}>
      <Trouble what="step" failure={failure} onRetry={reload} />
      {!data && !failure && <Loading lines={8} />}
      {data && <StepForm plugin={pluginOf(data)} step={data} order={data.order} />}
    </StepFrame>
  );
}

/** The choice of a plugin, and the form of a new step. It becomes the last of the chain. */
export function NewStepPage() {
  const { api } = useConsole();
  const { data, failure, reload } = useResource({
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
    <StepFrame title="New step">
      <NeedsScope scope="plugin:write">
        <Trouble what="project" failure={failure} onRetry={reload} />
        {!data && !failure && <Loading lines={8} />}
        {data && <NewStep {...data} />}
      </NeedsScope>
    </StepFrame>
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

function StepFrame({ title, children }: { title: string; children: ReactNode }) {
  useTitle(title);
  return (
    <>
      <nav className="crumbs small" aria-label="Place">
        <a href={hrefOf({ page: 'transformations' })}>Transformations</a>
      </nav>
      <div className="row heading">
        <h1>{title}</h1>
      </div>
      {children}
    </>
  );
}
