import { Refusal } from '../../domain/problem.ts';
import { recordActivity } from '../../store/activity.ts';
import type { Database } from '../../store/database.ts';
import { acceptEra, type ListedEra } from '../../store/eras.ts';

/**
 * Lets work begin on a database that was restored from a dump, or copied: the operator says that the
 * original is at work no more.
 */
export async function acceptCurrentEra(db: Database): Promise<ListedEra> {
  return db.transaction(async (tx) => {
    const era = await acceptEra(tx);
    if (era === null) {
      const detail = 'The current era is not held: nothing waits for an operator.';
      throw new Refusal({ code: 'conflict', detail, attr: null });
    }
    await recordActivity(tx, {
      organizationId: null,
      teamId: null,
      subjectType: 'era',
      subjectId: era.id,
      action: 'accepted',
      keyId: null,
      changes: [{ field: 'held', before: true, after: false }],
    });
    return era;
  });
}
