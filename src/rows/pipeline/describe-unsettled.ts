import { SluiceError } from '../../foundation/domain/errors.ts';
import { nothingWritten, type Settlement, type Unsettled } from '../sources/source.ts';

const again = 'Sluice checks the interval again';

const texts: Readonly<Record<Unsettled, string>> = {
  clock: `The clock of the source database did not pass the end of this interval in time. Rows may be missing; ${again} when the clock has passed it.`,
  transactions: `Transactions that may still add rows to this interval did not end in time. Rows may be missing; ${again} when they have ended.`,
  replay: `The standby did not replay what its primary had written in time. Rows may be missing; ${again} when it has.`,
  unseen: `The role of the source database does not see when transactions of other roles began. Rows may be missing; ${again} after SETTLE_TIMEOUT_SECONDS. Grant it pg_read_all_stats to avoid this.`,
  standby:
    'The source database is a standby without its primary, so nothing shows whether this interval is complete. Rows may be missing, and it stays unsettled. Only look-backs find late rows: set look_back_hours of the export.',
};

/** For the owner: what an unsettled interval means, what it waits for and what happens next. Null if it has settled. */
export function describeUnsettled({ reason, blockers = [] }: Settlement): string | null {
  return reason === null ? null : `${texts[reason]}${describeOpen('Still open', blockers)}`;
}

/** Null: the snapshot is from after the end of its interval. @throws `source.unavailable` if a later attempt can show it */
export function describeUnproven({ reason }: Settlement): string | null {
  if (reason === null) return null;
  if (reason !== 'standby') throw new SluiceError('source.unavailable', unproven[reason]);
  return 'The source database is a standby without its primary, so nothing shows that this snapshot was taken after the end of its interval.';
}

const early = 'a snapshot would be from before the end of the interval';
const unproven: Readonly<Record<Exclude<Unsettled, 'standby'>, string>> = {
  clock: `its clock has not passed the end of the interval, so ${early}`,
  replay: `the standby has not replayed what its primary had written, so ${early}`,
  transactions: early,
  unseen: early,
};

/** Describes in sentences what an interval waits for; with the remedy if a session may be a dump or a report. */
export function describeOpen(
  title: 'Now open' | 'Still open',
  blockers: readonly string[],
): string {
  if (blockers.length === 0) return '';
  const mayOnlyRead = blockers.some((text) => text.includes(nothingWritten));
  const remedy = mayOnlyRead
    ? ' If one of them only reads, such as a dump, let it log in as a role that can write nothing: runs do not wait for such a role.'
    : '';
  return ` ${title}: ${blockers.join('; ')}.${remedy}`;
}
