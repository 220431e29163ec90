import type { Step } from '../api-types.ts';
import { moved, ordersOf } from '../chain-order.ts';
import { useConsole } from '../console-context.ts';
import { formatShare } from '../numbers.ts';
import { hrefOf } from '../route.ts';
import { useSay } from './toasts.tsx';
import { useAction } from '../use-action.ts';
import { ActButton } from './act-button.tsx';
import { DeleteButton } from './delete-button.tsx';

interface Props {
  readonly steps: readonly Step[];
}

/** The steps in their order. With the right to write, buttons move them. */
export function ChainList({ steps }: Props) {
  const { may } = useConsole();
  return (
    <ol className="card">
      {steps.map((step, position) => (
        <li key={step.id} className="step">
          <span className="step-place">{position + 1}</span>
          <StepFacts step={step} />
          {may('plugin:write') && (
            <div className="step-buttons">
              <MoveButton steps={steps} from={position} way="up" />
              <MoveButton steps={steps} from={position} way="down" />
              <EnableButton step={step} />
              <DeleteStepButton step={step} />
            </div>
          )}
        </li>
      ))}
    </ol>
  );
}

/** Its number, name, plugin, state, error and rate. */
function StepFacts({ step }: { step: Step }) {
  const { id, name, description, plugin, enabled, error, details } = step;
  const { name: pluginName } = details.plugin_info;
  const rate = details.delivery_rate_24h;
  return (
    <div className="step-facts">
      <h2 className="row">
        <a href={hrefOf({ page: 'step', stepId: id })}>{name ?? `Step ${id}`}</a>
        <span className={`badge ${enabled ? 'is-Completed' : 'is-idle'}`}>
          {enabled ? 'Enabled' : 'Disabled'}
        </span>
        {error !== null && <span className="badge is-Failed">Has an error</span>}
      </h2>
      <p className="muted small">
        {typeof pluginName === 'string' ? pluginName : `Plugin ${plugin} is not installed`}
        {description !== null && ` · ${description}`}
      </p>
      <p className="small">
        {rate === null ? (
          <span className="muted">No rows in the last 24 hours</span>
        ) : (
          <span className={rate < 1 ? 'warn-text' : 'good-text'}>
            {formatShare(rate)} of rows without an error in the last 24 hours
          </span>
        )}
      </p>
      {error !== null && <p className="bad-text small">{error}</p>}
    </div>
  );
}

interface MoveProps {
  readonly steps: readonly Step[];
  readonly from: number;
  readonly way: 'up' | 'down';
}

/** Moves a step by one place. At the end of the list it does nothing: a button that is disabled would lose the focus. */
function MoveButton({ steps, from, way }: MoveProps) {
  const { api } = useConsole();
  const say = useSay();
  const step = steps[from];
  const to = way === 'up' ? from - 1 : from + 1;
  const isPossible = steps[to] !== undefined;
  const move = useAction(async () => {
    if (!step || !isPossible) return;
    const ids = moved(
      steps.map(({ id }) => id),
      step.id,
      to,
    );
    await api.patch('pipeline_transformation_configs/rearrange', {}, { orders: ordersOf(ids) });
    say(`${step.name ?? 'The step'} is now step ${to + 1} of ${ids.length}.`);
  });
  return (
    <ActButton
      act={move}
      className="small"
      aria-label={`Move ${step?.name} ${way}`}
      aria-disabled={move.busy || !isPossible}
    >
      <span aria-hidden="true">{way === 'up' ? '↑' : '↓'}</span>
    </ActButton>
  );
}

interface StepProps {
  readonly step: Step;
}

/** Enables or disables a step; shows why the API refuses. */
function EnableButton({ step: { id, name, enabled } }: StepProps) {
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
function DeleteStepButton({ step: { id, name } }: StepProps) {
  const { api } = useConsole();
  const remove = () => api.remove('pipeline_transformation_configs/{id}', { id });
  return (
    <DeleteButton name={name ?? `step ${id}`} what="step" remove={remove}>
      Runs that start from now on do not apply it. Files that were exported with it stay.
    </DeleteButton>
  );
}
