import { listSteps } from '../api.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { formatShare, plural } from '../numbers.ts';
import { Lab, useLab } from '../parts/lab.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { useTitle } from '../use-route.ts';
import type { Chain, Step } from '../api-types.ts';
import { ActButton, DeleteButton } from '../parts/buttons.tsx';

export function TransformationsPage() {
  const { api, may } = useConsole();
  const { data, failure, reload } = useResource({
    key: 'steps',
    load: (signal) => listSteps(api, signal),
    pollMs: () => 15_000,
  });
  useTitle('Transformations');
  const steps = data?.results ?? [];
  return (
    <>
      <div className="row heading">
        <h1>Transformations</h1>
        {steps.length > 0 && <span className="muted">{plural(steps.length, 'step')}</span>}
        {may('plugin:write') && (
          <a className="button primary last" href={hrefOf({ page: 'new-step' })}>
            New step
          </a>
        )}
      </div>
      <Pending {...{ data, failure, reload }} lines={5} />
      {data?.count === 0 && (
        <Empty title="No transformations yet">
          <p>
            A chain of steps changes, drops or hides rows before they are exported. It changes the
            exports that apply transformations.
          </p>
        </Empty>
      )}
      {data && steps.length > 0 && (
        <p>
          <AppliedBy appliedBy={data.applied_by} />
        </p>
      )}
      {steps.length > 0 && <ChainList steps={steps} />}
      {steps.length > 0 && may('plugin:write') && <StoredLab />}
    </>
  );
}

function StoredLab() {
  const lab = useLab(() => ({ transformations: true }));
  return (
    <div className="section">
      <Lab lab={lab} title="Lab">
        <p className="muted">The enabled steps, as they are stored. Nothing is exported.</p>
      </Lab>
    </div>
  );
}

/** The steps in their order. With the right to write, buttons move them. */
function ChainList({ steps }: { steps: readonly Step[] }) {
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
  const step = steps[from];
  const to = way === 'up' ? from - 1 : from + 1;
  const isPossible = steps[to] !== undefined;
  const move = useAction(async () => {
    if (!step || !isPossible) return;
    const moved = steps.toSpliced(from, 1).toSpliced(to, 0, step);
    // The API counts from 1.
    const orders = Object.fromEntries(moved.map(({ id }, position) => [id, position + 1]));
    await api.patch('pipeline_transformation_configs/rearrange', {}, { orders });
    return `${step.name ?? 'The step'} is now step ${to + 1} of ${steps.length}.`;
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

function EnableButton({ step: { id, name, enabled } }: { step: Step }) {
  const { api } = useConsole();
  const toggle = useAction(async () => {
    await api.patch('pipeline_transformation_configs/{id}', { id }, { enabled: !enabled });
    return `${name} is ${enabled ? 'disabled' : 'enabled'}.`;
  });
  const verb = enabled ? 'Disable' : 'Enable';
  return (
    <ActButton act={toggle} className="small" aria-label={`${verb} ${name}`}>
      {verb}
    </ActButton>
  );
}

function DeleteStepButton({ step: { id, name } }: { step: Step }) {
  const { api } = useConsole();
  const remove = () => api.remove('pipeline_transformation_configs/{id}', { id });
  return (
    <DeleteButton name={name ?? `step ${id}`} what="step" remove={remove}>
      Runs that start from now on do not apply it. Files that were exported with it stay.
    </DeleteButton>
  );
}

/** Which exports apply the chain of the project: an enabled step changes their rows and no others. */
export function AppliedBy({ appliedBy }: { appliedBy?: Chain['applied_by'] | undefined }) {
  const { api } = useConsole();
  const { data } = useResource({
    key: `applied by ${appliedBy === undefined}`,
    load: async (signal) => (appliedBy ? null : (await listSteps(api, signal)).applied_by),
  });
  const chainUse = appliedBy ?? data;
  if (!chainUse) return null;
  const { count, exports, results } = chainUse;
  if (count === 0) {
    return (
      <span className="warn-text">
        No export of the project applies the chain: choose “Apply transformations” in the form of an
        export.
      </span>
    );
  }
  return (
    <span>
      Applied by {count} of {plural(exports, 'export')}:{' '}
      {results.map(({ id, name }, index) => (
        <span key={id}>
          {index > 0 && ', '}
          <a href={hrefOf({ page: 'export', exportId: id, tab: 'settings' })}>{name}</a>
        </span>
      ))}
      {count > results.length && ` and ${count - results.length} more`}.
    </span>
  );
}
