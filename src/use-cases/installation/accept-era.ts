import { Refusal } from '../../domain/problem.ts';
import { recordActivity } from '../../store/activity.ts';
import type { Database } from '../../store/database.ts';
import { acceptEra, type ListedEra } from '../../store/eras.ts';

/**
 * Allows work on a restored or copied database. The operator confirms that the original is stopped
 * permanently.
 */
export async function acceptCurrentEra(db: Database): Promise<ListedEra> {
  return db.transaction(async (tx) => {
    const era = await acceptEra(tx);
    if (era === null) {
      const detail = 'The current era is not held: there is nothing to accept.';
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
