import { notFound } from '../../../foundation/domain/problem.ts';
import { deleteTransformationConfig } from '../../../state/store/transformations/transformation-configs.ts';
import type { Actor, Context } from '../context.ts';
import { recordStepActivity } from './activity.ts';

export async function removeTransformationConfig(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
): Promise<void> {
  return context.db.transaction(async (tx) => {
    if (!(await deleteTransformationConfig(tx, teamId, id))) throw notFound();
    await recordStepActivity(tx, actor, { teamId, id }, 'deleted', []);
  });
}
