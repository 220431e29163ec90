import { useEffect, useRef, useState } from 'react';
import type { Step } from './api-types.ts';
import { inOrder, moved, ordersOf } from './chain-order.ts';
import type { ApiFailure } from './client.ts';
import { useConsole } from './console-context.ts';
import { toFailure } from './use-resource.ts';

interface ChainOrder {
  /** In the order that the operator sees: moves show before they are stored. */
  readonly shown: readonly Step[];
  /** Moves a step to a place from 0. */
  readonly move: (step: Step, to: number) => void;
  readonly failure: ApiFailure | null;
}

/** The order of the chain. Moves are stored one after the other. */
export function useChainOrder(steps: readonly Step[], onStored: () => void): ChainOrder {
  const { client, say } = useConsole();
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
      await client.rearrangeSteps(ordersOf(ids));
      say(message);
    } catch (error) {
      setFailure(toFailure(error));
      if (latest.current === ids) setWanted(null);
    } finally {
      if (latest.current === ids) latest.current = null;
      onStored();
    }
  };
  const move = (step: Step, to: number) => {
    const before = shown.map(({ id }) => id);
    const ids = moved(before, step.id, to);
    const place = ids.indexOf(step.id);
    if (place === before.indexOf(step.id)) return;
    const message = `${step.name ?? 'The step'} is now step ${place + 1} of ${ids.length}.`;
    latest.current = ids;
    setFailure(null);
    setWanted(ids);
    stored.current = stored.current.then(() => store(ids, message));
  };
  return { shown, move, failure };
}
