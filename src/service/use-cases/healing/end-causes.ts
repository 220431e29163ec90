import { deleteCauses, listHeldUp } from '../../../state/store/healing/causes.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import { announce, turnOfCode } from '../notifications/announce.ts';

/** Ends causes: what they held up is free. Those that were announced are announced to be over. */
export async function endCauses(db: Transactor, ids: readonly string[]): Promise<void> {
  await db.transaction((tx) => endCausesIn(tx, ids));
}

/** The same within the caller's transaction. */
export async function endCausesIn(tx: Sql, ids: readonly string[]): Promise<void> {
  const held = await listHeldUp(tx, ids);
  const ended = new Set(await deleteCauses(tx, ids));
  const over = held.filter(({ causeId, isAnnounced }) => isAnnounced && ended.has(causeId));
  const concerned = over.map((one) => ({ ...one, turn: turnOfCode(one.code, false) }));
  await announce(tx, 'healing.ended', concerned);
}
