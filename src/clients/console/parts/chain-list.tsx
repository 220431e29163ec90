import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { Step } from '../api-types.ts';
import { announceChange } from '../changes.ts';
import { inOrder, moved, ordersOf } from '../chain-order.ts';
import type { ApiFailure } from '../api.ts';
import { useConsole } from '../console-context.ts';
import { formatShare } from '../numbers.ts';
import { hrefOf } from '../route.ts';
import { useDrag } from '../use-drag.ts';
import { toFailure } from '../use-resource.ts';
import { Failure } from './notice.tsx';
import { useSay } from './toasts.tsx';
import { useAction } from '../use-action.ts';
import { ActButton } from './act-button.tsx';
import { DeleteButton } from './delete-button.tsx';

interface Props {
  readonly steps: readonly Step[];
}

/** The steps in their order; with the right to write, they can be moved by drag, buttons and keys. */
export function ChainList({ steps }: Props) {
  const { may } = useConsole();
  const { shown, move, failure } = useChainOrder(steps);
  const { list, drag, handlersOf } = useDrag<HTMLOListElement>((from, to) => {
    const step = shown[from];
    if (step) move(step, to);
  });
  const canWrite = may('plugin:write');
  return (
    <>
      <Failure failure={failure} />
      {canWrite && (
        <p className="muted small chain-help" id="chain-help">
          Drag a step by its handle, or focus the handle and press the up and down arrow keys.
        </p>
      )}
      <ol ref={list} className="card">
        {shown.map((step, position) => (
          <li key={step.id} className={`step ${dragClass(drag, position)}`}>
            <span className="step-place">
              {canWrite && (
                <Handle
                  step={step}
                  onMove={(by) => move(step, position + by)}
                  pointer={handlersOf(position)}
                />
              )}
              {position + 1}
            </span>
            <StepFacts step={step} />
            {canWrite && (
              <div className="step-buttons">
                <MoveButton
                  step={step}
                  way="up"
                  ends={position === 0}
                  onMove={() => move(step, position - 1)}
                />
                <MoveButton
                  step={step}
                  way="down"
                  ends={position === shown.length - 1}
                  onMove={() => move(step, position + 1)}
                />
                <EnableButton step={step} />
                <DeleteStepButton step={step} />
              </div>
            )}
          </li>
        ))}
      </ol>
    </>
  );
}

function dragClass(drag: ReturnType<typeof useDrag>['drag'], position: number): string {
  if (!drag) return '';
  if (drag.from === position) return 'is-dragged';
  if (drag.to !== position) return '';
  return drag.to < drag.from ? 'drop-above' : 'drop-below';
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

interface HandleProps {
  readonly step: Step;
  readonly onMove: (by: number) => void;
  readonly pointer: ReturnType<ReturnType<typeof useDrag>['handlersOf']>;
}

const keys: Readonly<Record<string, number>> = { ArrowUp: -1, ArrowDown: 1 };

function Handle({ step, onMove, pointer }: HandleProps) {
  const pressed = (event: KeyboardEvent) => {
    const by = keys[event.key];
    if (by === undefined) return;
    event.preventDefault();
    onMove(by);
  };
  return (
    <button
      type="button"
      className="quiet handle"
      aria-label={`Move ${step.name}`}
      aria-describedby="chain-help"
      onKeyDown={pressed}
      {...pointer}
    >
      <span aria-hidden="true">⠿</span>
    </button>
  );
}

interface MoveProps {
  readonly step: Step;
  readonly way: 'up' | 'down';
  /** It cannot move further. The button keeps the focus, so it is not disabled. */
  readonly ends: boolean;
  readonly onMove: () => void;
}

function MoveButton({ step, way, ends, onMove }: MoveProps) {
  return (
    <button
      type="button"
      className="small"
      aria-label={`Move ${step.name} ${way}`}
      aria-disabled={ends}
      onClick={onMove}
    >
      <span aria-hidden="true">{way === 'up' ? '↑' : '↓'}</span>
    </button>
  );
}

interface ChainOrder {
  /** In the order that the operator sees: moves show before they are stored. */
  readonly shown: readonly Step[];
  /** Moves a step to a position from 0. */
  readonly move: (step: Step, to: number) => void;
  readonly failure: ApiFailure | null;
}

/** The order of the chain. Moves are stored one after the other. */
function useChainOrder(steps: readonly Step[]): ChainOrder {
  const { api } = useConsole();
  const say = useSay();
  const [wanted, setWanted] = useState<readonly number[] | null>(null);
  const [failure, setFailure] = useState<ApiFailure | null>(null);
  const latest = useRef<readonly number[] | null>(null);
  const stored = useRef(Promise.resolve());
  const shown = wanted ? inOrder(steps, wanted) : steps;

  // The list of the API is shown again once it has all moves.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new list is the reason.
  useEffect(() => {
    if (latest.current === null) setWanted(null);
  }, [steps]);

  const store = async (ids: readonly number[], message: string) => {
    // A later move stores this one too.
    if (latest.current !== ids) return;
    try {
      await api.patch('pipeline_transformation_configs/rearrange', {}, { orders: ordersOf(ids) });
      say(message);
    } catch (error) {
      setFailure(toFailure(error));
      if (latest.current === ids) setWanted(null);
    } finally {
      if (latest.current === ids) latest.current = null;
      announceChange();
    }
  };
  const move = (step: Step, to: number) => {
    const before = shown.map(({ id }) => id);
    const ids = moved(before, step.id, to);
    const position = ids.indexOf(step.id);
    if (position === before.indexOf(step.id)) return;
    const message = `${step.name ?? 'The step'} is now step ${position + 1} of ${ids.length}.`;
    latest.current = ids;
    setFailure(null);
    setWanted(ids);
    stored.current = stored.current.then(() => store(ids, message));
  };
  return { shown, move, failure };
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
