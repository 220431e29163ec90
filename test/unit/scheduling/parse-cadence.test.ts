import { describe, expect, test } from 'vitest';
import { intervals } from '../../../src/foundation/domain/cadence.ts';
import {
  type CadenceInput,
  parseCadence,
  parseInterval,
} from '../../../src/service/scheduling/parse-cadence.ts';
import { daily, weekly } from './examples.ts';

function problemsOf(input: CadenceInput, minIntervalMinutes = 5): string[] {
  const parsed = parseCadence(input, minIntervalMinutes);
  return parsed.ok ? [] : parsed.problems.map(({ attr, code }) => `${attr} ${code}`);
}

describe('parseInterval', () => {
  test.each(intervals)('knows %s', (interval) => {
    expect(parseInterval(interval)).toBe(interval);
  });

  test.each([
    '',
    'Hour',
    'minute',
    'every 2 minutes',
    'every 5 minute',
    'every 05 minutes',
    'every 5 minutes ',
  ])('refuses "%s"', (name) => {
    expect(parseInterval(name)).toBeNull();
  });
});

describe('parseCadence', () => {
  test('fills in UTC and the offsets that the interval takes', () => {
    expect(parseCadence({ interval: 'hour' }, 5)).toEqual({
      ok: true,
      cadence: { interval: 'hour', timezone: 'UTC', offsetDay: null, offsetHour: null },
    });
    expect(parseCadence({ interval: 'day', timezone: 'Asia/Beirut' }, 5)).toEqual({
      ok: true,
      cadence: daily('Asia/Beirut', 0),
    });
    expect(parseCadence({ interval: 'week', offsetDay: 6, offsetHour: 23 }, 5)).toEqual({
      ok: true,
      cadence: weekly('UTC', 6, 23),
    });
  });

  test.each<[CadenceInput, string[]]>([
    [{}, ['interval required']],
    [{ interval: 'fortnight' }, ['interval invalid_choice']],
    [{ interval: 'every 1 minutes' }, ['interval min_value']],
    [{ interval: 'day', timezone: 'Mars/Olympus' }, ['timezone invalid_choice']],
    [{ interval: 'day', timezone: '+05:00' }, ['timezone invalid_choice']],
    [{ interval: 'day', timezone: 'local' }, ['timezone invalid_choice']],
    [{ interval: 'day', timezone: '' }, ['timezone invalid_choice']],
    [{ interval: 'day', offsetHour: 24 }, ['offset_hour max_value']],
    [{ interval: 'day', offsetHour: -1 }, ['offset_hour min_value']],
    [{ interval: 'day', offsetHour: 1.5 }, ['offset_hour invalid_input']],
    [{ interval: 'week', offsetDay: 7 }, ['offset_day max_value']],
    [{ interval: 'day', offsetDay: 1 }, ['offset_day invalid_input']],
    [{ interval: 'hour', offsetHour: 0 }, ['offset_hour invalid_input']],
    [
      { interval: 'every 10 minutes', offsetDay: 0, offsetHour: 0 },
      ['offset_day invalid_input', 'offset_hour invalid_input'],
    ],
    [
      { interval: 'never', timezone: 'x', offsetHour: 99 },
      ['interval invalid_choice', 'timezone invalid_choice', 'offset_hour max_value'],
    ],
  ])('%j is refused with %j', (input, expected) => {
    expect(problemsOf(input)).toEqual(expected);
  });

  test('one minute is allowed if the installation allows it', () => {
    expect(problemsOf({ interval: 'every 1 minutes' }, 1)).toEqual([]);
  });

  test('nulls sent back from a response are no fault', () => {
    expect(
      problemsOf({ interval: 'hour', timezone: 'UTC', offsetDay: null, offsetHour: null }),
    ).toEqual([]);
  });

  test('a partial update keeps what it does not say', () => {
    expect(parseCadence({ offsetHour: 7 }, 5, weekly('Asia/Beirut', 2, 3))).toEqual({
      ok: true,
      cadence: weekly('Asia/Beirut', 2, 7),
    });
  });

  test('a partial update to an interval without offsets drops the inherited ones', () => {
    expect(parseCadence({ interval: 'hour' }, 5, weekly('Asia/Beirut', 2, 3))).toEqual({
      ok: true,
      cadence: { interval: 'hour', timezone: 'Asia/Beirut', offsetDay: null, offsetHour: null },
    });
  });

  test('null takes an offset back to its default', () => {
    expect(parseCadence({ offsetHour: null }, 5, daily('UTC', 3))).toEqual({
      ok: true,
      cadence: daily('UTC', 0),
    });
  });

  test('an export below a minimum that was raised later can still change its zone', () => {
    const current = { ...daily('UTC'), interval: 'every 1 minutes', offsetHour: null } as const;
    expect(parseCadence({ timezone: 'Asia/Beirut' }, 5, current).ok).toBe(true);
  });
});
