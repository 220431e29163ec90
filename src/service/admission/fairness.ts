/** How many runs may use the slots of the workers, of one organization or of one sort. */

import type { Capacity, SlotLimits } from '../../state/store/runs/outbox.ts';

/** Small runs of one project that have a turn together, so that they share their snapshot. */
export const smallRunsPerTurn = 4;

/** From this number of slots on, one is left to other tenants. */
const sharedFrom = 4;

/**
 * Runs of one organization that may be in flight: all slots of the workers, but of four or more all but one.
 * So a tenant whose runs never end does not keep others from starting, and no slot is idle if two tenants
 * have work. Null: any number.
 *
 * @param slots of all workers
 */
export const organizationShare = (slots: number): number | null =>
  slots >= sharedFrom ? slots - 1 : null;

/** An organization that is crowded keeps one slot out of this many. */
const crowdedPart = 8;

/**
 * Runs of one organization that may be in flight while it crowds others: the processors have too much to do,
 * and other organizations are active. Each slot more would slow them down.
 *
 * @param slots of all workers
 * @param perTurn runs that have a turn together: fewer would only make each of them dearer
 */
export function crowdedShare(slots: number, perTurn = 1): number {
  const share = Math.max(perTurn, Math.floor(slots / crowdedPart));
  return Math.min(organizationShare(slots) ?? share, share);
}

/**
 * Runs that heal of all organizations that may be in flight: a quarter of the slots. A place that hangs holds no more of them.
 *
 * @param slots of all workers
 */
export const healingShare = (slots: number): number => Math.max(1, Math.floor(slots / 4));

/** The limits for each kind of slots. The queue holds twice as many runs as the workers have slots. */
export function limitsOf({ large, small }: Capacity): readonly SlotLimits[] {
  const limits = (slots: number, isSmall: boolean): SlotLimits => ({
    small: isSmall,
    queued: 2 * slots,
    share: organizationShare(slots),
    crowdedShare: crowdedShare(slots, isSmall ? smallRunsPerTurn : 1),
    healing: healingShare(slots),
  });
  return [limits(large, false), ...(small > 0 ? [limits(small, true)] : [])];
}
