import { type Problem, Refusal, refuseIfAny } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import {
  type ChainStepPosition,
  findTransformationConfig,
  lockChain,
  moveSteps,
  type TransformationConfig,
} from '../../../state/store/transformations/transformation-configs.ts';
import type { Actor, Context } from '../context.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';

/** New orders by the id of the step, or the new order of a plugin's only step. */
export type Rearrangement =
  | { readonly orders: ReadonlyMap<number, number> }
  | { readonly plugin: number; readonly order: number };

/**
 * Moves steps of a project's chain: all of them, or none if one is refused.
 *
 * @returns the moved step; if there are several, the first of the request
 */
export async function rearrangeTransformationConfigs(
  context: Context,
  actor: Actor,
  teamId: number,
  asked: Rearrangement,
): Promise<TransformationConfig> {
  return context.db.transaction(async (tx) => {
    const chain = await lockChain(tx, teamId);
    const orders =
      'orders' in asked ? ordersById(chain, asked.orders) : orderOfPlugin(chain, asked);
    await moveSteps(tx, teamId, orders);
    const [first = 0] = orders.keys();
    const moved = await findTransformationConfig(tx, teamId, first);
    if (!moved) throw new Error('a locked step is missing');
    await recordMoves(tx, actor, chain, orders);
    return moved;
  });
}

function ordersById(
  chain: readonly ChainStepPosition[],
  orders: ReadonlyMap<number, number>,
): ReadonlyMap<number, number> {
  const own = new Set(chain.map(({ id }) => id));
  const problems = [...orders.keys()]
    .filter((id) => !own.has(id))
    .map((id): Problem => {
      const detail = 'The project has no transformation config with this id.';
      return { code: 'does_not_exist', detail, attr: `orders__${id}` };
    });
  refuseIfAny(problems);
  return orders;
}

function orderOfPlugin(
  chain: readonly ChainStepPosition[],
  { plugin, order }: { readonly plugin: number; readonly order: number },
): ReadonlyMap<number, number> {
  const [step, ...others] = chain.filter((candidate) => candidate.plugin === plugin);
  if (!step) {
    const detail = 'The project has no transformation config of this plugin.';
    throw new Refusal({ code: 'does_not_exist', detail, attr: 'plugin' });
  }
  if (others.length > 0) {
    const detail = 'The project has several configs of this plugin. Use orders and name their ids.';
    throw new Refusal({ code: 'invalid_input', detail, attr: 'plugin' });
  }
  return new Map([[step.id, order]]);
}

/** One activity for all steps that move: a chain may have thousands. Its subject is the first of them. */
async function recordMoves(
  tx: Sql,
  actor: Actor,
  chain: readonly ChainStepPosition[],
  orders: ReadonlyMap<number, number>,
): Promise<void> {
  const moved = chain.filter(({ id, order }) => (orders.get(id) ?? order) !== order);
  const [first] = moved;
  if (!first) return;
  const before = Object.fromEntries(moved.map(({ id, order }) => [id, order]));
  const after = Object.fromEntries(moved.map(({ id }) => [id, orders.get(id)]));
  const change = { field: 'order', before, after };
  await recordActivity(tx, actor, 'moved', 'transformation_config', first, [change]);
}
