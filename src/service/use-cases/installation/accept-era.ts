import type { Database } from '../../../state/store/database/database.ts';
import { acceptEra, type ListedEra } from '../../../state/store/database/eras.ts';
import { recordActivity } from '../../../state/store/exports/activity.ts';

/**
 * Allows work on a restored or copied database, and on files that a lost history has put into buckets until now. The
 * operator confirms that no other copy of the database is in use.
 */
export async function acceptCurrentEra(db: Database): Promise<ListedEra> {
  return db.transaction(async (tx) => {
    const era = await acceptEra(tx);
    const change = { field: 'accepted', before: false, after: true };
    const actor = { organizationId: null, keyId: null };
    await recordActivity(tx, actor, 'accepted', 'era', { id: era.id }, [change]);
    return era;
  });
}
