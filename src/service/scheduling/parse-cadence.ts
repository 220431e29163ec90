/** Turns the names and numbers of a request into a cadence, or reports what is wrong with them. */

import { type Cadence, type Interval, intervals } from '../../foundation/domain/cadence.ts';
import type { Problem, ProblemCode } from '../../foundation/domain/problem.ts';
import { isLocal, nominalMs } from './boundary.ts';
import { isTimezone } from './zone-offset.ts';

/** The fields of a request. A missing field keeps the current value, or takes its default. */
export interface CadenceInput {
  readonly interval?: string | undefined;
  readonly timezone?: string | undefined;
  readonly offsetDay?: number | null | undefined;
  readonly offsetHour?: number | null | undefined;
}

export type ParsedCadence =
  | { readonly ok: true; readonly cadence: Cadence }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export function parseInterval(name: string): Interval | null {
  return intervals.find((interval) => interval === name) ?? null;
}

/**
 * Checks all fields and reports every problem at once.
 *
 * An offset that the interval does not support is a problem if the request has it, and is dropped if it was
 * inherited from `current`. A missing offset is 0. The zone is kept for every interval: even if it does not
 * move boundaries, previews use it.
 *
 * @param minIntervalMinutes the shortest interval this installation allows
 * @param current the cadence that a partial update starts from
 */
export function parseCadence(
  input: CadenceInput,
  minIntervalMinutes: number,
  current?: Cadence,
): ParsedCadence {
  const problems: Problem[] = [];
  const report = (attr: string, code: ProblemCode, detail: string): void => {
    problems.push({ code, detail, attr });
  };

  const name = input.interval ?? current?.interval;
  const interval = name === undefined ? null : parseInterval(name);
  if (name === undefined) {
    report('interval', 'required', 'This field is required.');
  } else if (interval === null) {
    const detail = `"${name}" is not an interval. Use one of ${intervals.join(', ')}.`;
    report('interval', 'invalid_choice', detail);
  } else if (input.interval !== undefined && nominalMs(interval) < minIntervalMinutes * 60_000) {
    const detail = `The shortest interval allowed here is ${minIntervalMinutes} minutes.`;
    report('interval', 'min_value', detail);
  }

  const timezone = input.timezone ?? current?.timezone ?? 'UTC';
  if (!isTimezone(timezone)) {
    report('timezone', 'invalid_choice', `"${timezone}" is not an IANA time zone name.`);
  }

  const takes = {
    offset_day: interval === 'week',
    offset_hour: interval !== null && isLocal({ interval }),
  };
  const offset = (
    field: 'offset_day' | 'offset_hour',
    said: number | null | undefined,
    inherited: number | null | undefined,
    max: number,
  ): number | null => {
    if (said !== undefined && said !== null) {
      if (!Number.isInteger(said)) report(field, 'invalid_input', 'Use a whole number.');
      else if (said < 0) report(field, 'min_value', 'Must be at least 0.');
      else if (said > max) report(field, 'max_value', `Must be at most ${max}.`);
      else if (interval !== null && !takes[field]) {
        const detail = `Remove ${field}: the interval "${interval}" does not support it.`;
        report(field, 'invalid_input', detail);
      }
    }
    if (!takes[field]) return null;
    return (said === undefined ? inherited : said) ?? 0;
  };
  const offsetDay = offset('offset_day', input.offsetDay, current?.offsetDay, 6);
  const offsetHour = offset('offset_hour', input.offsetHour, current?.offsetHour, 23);

  if (interval === null || problems.length > 0) return { ok: false, problems };
  return { ok: true, cadence: { interval, timezone, offsetDay, offsetHour } };
}
