import { recordActivity } from '../../store/activity.ts';
import { deleteTransformationConfig } from '../../store/transformation-configs.ts';
import type { Actor } from '../actor.ts';
import type { Context } from '../context.ts';
import { done, gone, type Outcome } from '../outcome.ts';

/** Removes a step for good. */
export async function removeTransformationConfig(
  context: Context,
  actor: Actor,
  teamId: number,
  id: number,
): Promise<Outcome<null>> {
  return context.db.transaction(async (tx) => {
    if (!(await deleteTransformationConfig(tx, teamId, id))) return gone;
    await recordActivity(tx, {
      organizationId: actor.organizationId,
      teamId,
      subjectType: 'transformation_config',
      subjectId: String(id),
      action: 'deleted',
      keyId: actor.keyId,
      changes: [],
    });
    return done(null);
  });
}
