import { toTimestamp } from '../../../foundation/domain/time.ts';

const dayMs = 86_400_000;
/** The calendar repeats after 400 years. */
const cycleYears = 400;
const cycleMs = 146_097 * dayMs;
/** JavaScript's dates end at the year 275760, PostgreSQL's at 5874897. */
const lastMs = 8.64e15;

/** A time of a Parquet file, microseconds since 1970. */
export function textOfMicroseconds(micros: bigint): string {
  const fraction = ((micros % 1_000n) + 1_000n) % 1_000n;
  const text = textOfMilliseconds(Number((micros - fraction) / 1_000n));
  // The last digits come before the Z, and before the BC of an early year.
  return text.replace(/\d{3}Z/, `${String(fraction).padStart(3, '0')}Z`);
}

/** A date of a Parquet file, days since 1970. */
export function textOfDays(days: number): string {
  return textOfMilliseconds(days * dayMs).replace(/T.*Z/, '');
}

function textOfMilliseconds(ms: number): string {
  const cycles = ms > lastMs ? Math.ceil((ms - lastMs) / cycleMs) : 0;
  return yearOfPostgres(toTimestamp(ms - cycles * cycleMs), cycles * cycleYears);
}

/** ISO's years 0 and below are years before Christ, and those past 9999 have a sign. */
function yearOfPostgres(text: string, later: number): string {
  const [, year = '', rest = ''] = /^([+-]?\d+)(-.*)$/.exec(text) ?? [];
  const number = Number(year) + later;
  const shown = String(number > 0 ? number : 1 - number).padStart(4, '0');
  return `${shown}${rest}${number > 0 ? '' : ' BC'}`;
}
