import { toTimestamp } from '../../domain/time.ts';

/** A time of a Parquet file, microseconds since 1970. */
export function textOfMicroseconds(micros: bigint): string {
  const fraction = ((micros % 1_000n) + 1_000n) % 1_000n;
  const text = toTimestamp(Number((micros - fraction) / 1_000n));
  return yearOfPostgres(`${text.slice(0, -4)}${String(fraction).padStart(3, '0')}Z`);
}

/** A date of a Parquet file, days since 1970. */
export function textOfDays(days: number): string {
  return yearOfPostgres(toTimestamp(days * 86_400_000)).replace(/T.*Z/, '');
}

/** ISO's years 0 and below are years before Christ, and those past 9999 have a sign. */
function yearOfPostgres(text: string): string {
  const [, year = '', rest = ''] = /^([+-]?\d+)(-.*)$/.exec(text) ?? [];
  const number = Number(year);
  const shown = String(number > 0 ? number : 1 - number).padStart(4, '0');
  return `${shown}${rest}${number > 0 ? '' : ' BC'}`;
}
