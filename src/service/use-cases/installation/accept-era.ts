import { recordActivity } from '../../../state/store/exports/activity.ts';
import type { Database } from '../../../state/store/database/database.ts';
import { acceptEra, type ListedEra } from '../../../state/store/database/eras.ts';

/**
 * Allows work on a restored or copied database, and on files that a lost history has put into buckets until now. The
 * operator confirms that no other copy of the database is in use.
 */
export async function acceptCurrentEra(db: Database): Promise<ListedEra> {
  return db.transaction(async (tx) => {
    const era = await acceptEra(tx);
    await recordActivity(tx, {
      organizationId: null,
      teamId: null,
      subjectType: 'era',
      subjectId: era.id,
      action: 'accepted',
      keyId: null,
      changes: [{ field: 'accepted', before: false, after: true }],
    });
    return era;
  });
}
