import type { Cadence } from '../../../foundation/domain/cadence.ts';
import type { Instant } from '../../../foundation/domain/time.ts';
import { isLocal } from '../../scheduling/boundary.ts';
import { firstInstantAt } from '../../scheduling/zone-offset.ts';

/** When the day of a date begins for an export per day or week: at its hour, in its zone. Null for other texts and exports. */
export function beginOfDay(cadence: Cadence, text: string): Instant | null {
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || !isLocal(cadence)) return null;
  const midnight = Date.parse(`${text}T00:00Z`);
  if (Number.isNaN(midnight)) return null;
  return firstInstantAt(cadence.timezone, midnight + (cadence.offsetHour ?? 0) * 3_600_000);
}
