import { notFound } from '../../domain/problem.ts';
import { recordActivity } from '../../store/activity.ts';
import { deleteTransformationConfig } from '../../store/transformation-configs.ts';
import type { Actor, Context } from '../context.ts';

/** Removes a step for good. */
export async function removeTransformationConfig(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
): Promise<void> {
  return context.db.transaction(async (tx) => {
    if (!(await deleteTransformationConfig(tx, teamId, id))) throw notFound();
    await recordActivity(tx, {
      organizationId: actor.organizationId,
      teamId,
      subjectType: 'transformation_config',
      subjectId: String(id),
      action: 'deleted',
      keyId: actor.keyId,
      changes: [],
    });
  });
}
