import type { Step } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { useAction } from '../use-action.ts';
import { ActButton } from './act-button.tsx';
import { DeleteButton } from './delete-button.tsx';
import { useSay } from './toasts.tsx';

interface Props {
  readonly step: Step;
}

/** Enables or disables a step; shows why the API refuses. */
export function EnableButton({ step: { id, name, enabled } }: Props) {
  const { api } = useConsole();
  const say = useSay();
  const toggle = useAction(async () => {
    await api.patch('pipeline_transformation_configs/{id}', { id }, { enabled: !enabled });
    say(`${name} is ${enabled ? 'disabled' : 'enabled'}.`);
  });
  const verb = enabled ? 'Disable' : 'Enable';
  return (
    <ActButton act={toggle} className="small" aria-label={`${verb} ${name}`}>
      {verb}
    </ActButton>
  );
}

/** Deletes a step, after confirmation. */
export function DeleteStepButton({ step: { id, name } }: Props) {
  const { api } = useConsole();
  const remove = () => api.remove('pipeline_transformation_configs/{id}', { id });
  return (
    <DeleteButton name={name ?? `step ${id}`} what="step" remove={remove}>
      Runs that start from now on do not apply it. Files that were exported with it stay.
    </DeleteButton>
  );
}
