import type { Settlement, Unsettled } from '../sources/source.ts';

const again = 'Sluice checks the interval again';

const texts: Readonly<Record<Unsettled, string>> = {
  clock: `The clock of the source database did not pass the end of this interval in time. Rows may be missing; ${again} when the clock has passed it.`,
  transactions: `Transactions that may still add rows to this interval did not end in time. Rows may be missing; ${again} when they have ended.`,
  replay: `The standby did not replay what its primary had written in time. Rows may be missing; ${again} when it has.`,
  unseen: `The role of the source database does not see when transactions of other roles began. Rows may be missing; ${again} after SETTLE_TIMEOUT_SECONDS. Grant it pg_read_all_stats to avoid this.`,
  standby:
    'The source database is a standby without its primary, so nothing shows whether this interval is complete. Rows may be missing, and it stays unsettled. Only LATE_LOOKBACK_HOURS looks for late rows.',
};

/** For the owner: what an unsettled interval means, what it waits for and what happens next. Null if it has settled. */
export function describeUnsettled({ reason, blockers = [] }: Settlement): string | null {
  if (reason === null) return null;
  const open = blockers.length === 0 ? '' : ` Still open: ${blockers.join('; ')}.`;
  return `${texts[reason]}${open}`;
}
