import type { Cadence } from '../../foundation/domain/cadence.ts';
import { nominalMs } from './boundary.ts';

/** The maximum share of an interval by which a start may be delayed. */
const maxShare = 0.05;

/**
 * The delay of an export's runs after the tick, in whole milliseconds: always the same for one export and
 * cadence, spread evenly over exports, below 5% of the interval and below `maxJitterSeconds`. 0 turns it
 * off. The interval itself does not change.
 */
export function jitterMs(exportId: string, cadence: Cadence, maxJitterSeconds: number): number {
  const ceilingMs = Math.min(nominalMs(cadence.interval) * maxShare, maxJitterSeconds * 1000);
  return Math.floor(fractionOf(exportId) * Math.max(ceilingMs, 0));
}

/** In [0, 1). FNV-1a, then the final mix of MurmurHash3: ids with one prefix (UUIDv7) must spread too. */
function fractionOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
