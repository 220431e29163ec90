import type { Cadence } from '../../../foundation/domain/cadence.ts';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import { boundaryAtOrBefore, nextBoundary } from '../../scheduling/boundary.ts';
import { type CadenceInput, parseCadence } from '../../scheduling/parse-cadence.ts';

const dayMs = 86_400_000;
/** In most zones one is summer time, the other is not. */
const seasons = [Date.UTC(2024, 0, 10, 12), Date.UTC(2024, 6, 10, 12)];

/**
 * An interval as an export will have them: one that ends within a day in UTC, if there are such. A cadence that is not valid,
 * which other checks refuse, gives a whole day.
 *
 * @param current what the input changes
 */
export function sampleIntervalOf(input: CadenceInput, current?: Cadence): DataInterval {
  const parsed = parseCadence(input, 0, current);
  if (!parsed.ok) return { start: 0, end: dayMs };
  const { cadence } = parsed;
  const samples = seasons.map((season) => {
    const end = nextBoundary(cadence, season);
    return { start: boundaryAtOrBefore(cadence, end - 1), end };
  });
  const [first = { start: 0, end: dayMs }] = samples;
  return samples.find(({ end }) => end % dayMs !== 0) ?? first;
}
