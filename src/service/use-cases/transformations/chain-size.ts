import { Refusal } from '../../../foundation/domain/problem.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import { countEnabledSteps } from '../../../state/store/transformations/transformation-configs.ts';

/**
 * Maximum enabled steps of a project. Every run holds all their configs, and each row goes through all of them, in
 * a process that has runs of others too.
 */
export const maxSteps = 50;

/**
 * Before a step is enabled.
 *
 * @param id of the step
 * @throws Refusal if the chain is full
 */
export async function refuseLongChain(tx: Sql, teamId: number, id: number): Promise<void> {
  if ((await countEnabledSteps(tx, teamId, id)) < maxSteps) return;
  const detail = `The project has ${maxSteps} enabled steps, the maximum. Disable one first, or create this one with enabled false.`;
  throw new Refusal({ code: 'invalid_input', detail, attr: 'enabled' });
}
