/**
 * PostgreSQL's binary interval (`interval_send`): int64 microseconds, int32 days, int32 months. Printed as
 * `to_json` prints it with the interval style iso_8601.
 */

const hourMicros = 3_600_000_000n;
const minuteMicros = 60_000_000n;
const secondMicros = 1_000_000n;
const maxInt32 = 0x7fffffff;
const minInt32 = -0x80000000;
const maxMicros = 2n ** 63n - 1n;
const minMicros = -(2n ** 63n);

/** Maximum bytes of the text with its quotes. */
export const intervalTextBytes = 80;

/** The JSON text. Since PostgreSQL 17 the greatest and the smallest values are infinite. */
export function intervalText(bytes: Buffer, from: number): string {
  const micros = bytes.readBigInt64BE(from);
  const days = bytes.readInt32BE(from + 8);
  const months = bytes.readInt32BE(from + 12);
  if (months === maxInt32 && days === maxInt32 && micros === maxMicros) return '"infinity"';
  if (months === minInt32 && days === minInt32 && micros === minMicros) return '"-infinity"';
  const date =
    part(Math.trunc(months / 12), 'Y') + part(months % 12, 'M') + (days === 0 ? '' : `${days}D`);
  const time =
    part(Number(micros / hourMicros), 'H') +
    part(Number((micros % hourMicros) / minuteMicros), 'M') +
    seconds(Number(micros % minuteMicros));
  if (date === '' && time === '') return '"PT0S"';
  return `"P${date}${time === '' ? '' : `T${time}`}"`;
}

function part(value: number, unit: string): string {
  return value === 0 ? '' : `${value}${unit}`;
}

/** @param micros below a minute in size */
function seconds(micros: number): string {
  if (micros === 0) return '';
  const size = Math.abs(micros);
  const whole = Math.floor(size / Number(secondMicros));
  const fraction = fractionOf(size % Number(secondMicros));
  return `${micros < 0 ? '-' : ''}${whole}${fraction}S`;
}

/** `.5`; empty for none. */
function fractionOf(micros: number): string {
  return micros === 0 ? '' : `.${String(micros).padStart(6, '0').replace(/0+$/, '')}`;
}

/** Maximum bytes of a time of day with its quotes. */
export const timeTextBytes = 17;

/** The JSON text of a binary time (`time_send`): int64 microseconds, up to 24:00:00. */
export function timeText(bytes: Buffer, from: number): string {
  const micros = Number(bytes.readBigInt64BE(from));
  const whole = Math.floor(micros / Number(secondMicros));
  const pad = (value: number) => String(value).padStart(2, '0');
  const clock = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return `"${clock.map(pad).join(':')}${fractionOf(micros % Number(secondMicros))}"`;
}
