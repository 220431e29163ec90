import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import { misused } from '../deps.ts';
import type { Api } from './api.ts';

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** `90m`, `6h`, `2d`, `1w` in milliseconds; null if the text is something else. */
function readSpan(text: string): number | null {
  const [, count, unit] = /^(\d{1,5})([mhdw])$/.exec(text) ?? [];
  if (count === undefined || unit === undefined || Number(count) === 0) return null;
  return Number(count) * unitMs[unit as keyof typeof unitMs];
}

/** A time as a person writes it: ISO 8601, UTC if it has no offset. @throws CliError that names the option */
function readTime(option: string, text: string, others = ''): string {
  const parsed = parseTime(text);
  if (parsed) return parsed.timestamp;
  throw misused(
    `${option}: ${text} is not a time. Use ISO 8601, such as 2024-03-01 or 2024-03-01T06:00:00Z${others}; without an offset a time is UTC.`,
  );
}

/** Milliseconds by the service's clock, in whole minutes: this machine's clock and its answer's seconds differ a little. */
function minuteOf(api: Api): number {
  return Math.floor((api.serviceTime() ?? 0) / 60_000) * 60_000;
}

/** A span back from now, or a time. The service must have answered before: its clock is the one that counts. */
export function readSince(api: Api, option: string, text: string): string {
  const spanMs = readSpan(text);
  return spanMs === null
    ? readTime(option, text, ', or a span such as 6h')
    : toTimestamp((api.serviceTime() ?? 0) - spanMs);
}

interface RangeOptions {
  readonly from?: string;
  readonly to?: string;
  readonly last?: string;
}

/** The range of `--last`, or of `--from` and `--to`, whose default is now. @throws CliError */
export function readRange(api: Api, { from, to, last }: RangeOptions) {
  if (last === undefined) {
    if (from === undefined) throw misused('Name the range: --from <time>, or --last <span>.');
    const end = to === undefined ? toTimestamp(minuteOf(api)) : readTime('--to', to);
    return { start_at: readTime('--from', from), end_at: end };
  }
  if (from !== undefined || to !== undefined) {
    throw misused('Use --last, or --from and --to, not both.');
  }
  const spanMs = readSpan(last);
  if (spanMs === null) {
    throw misused(`--last: ${last} is not a span. Use a number with m, h, d or w, such as 6h.`);
  }
  const end = minuteOf(api);
  return { start_at: toTimestamp(end - spanMs), end_at: toTimestamp(end) };
}
