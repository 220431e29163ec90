import { describe, expect, test } from 'vitest';
import {
  changeCadence,
  changeWindow,
  missedWhilePaused,
  pause,
  unpause,
} from '../../../src/service/scheduling/schedule.ts';
import { timelineOf } from '../../../src/service/scheduling/timeline.ts';
import type { Schedule } from '../../../src/foundation/domain/schedule.ts';
import { at, daily, scheduleFrom, showIntervals } from './examples.ts';

const missed = (schedule: Schedule, now: number) =>
  missedWhilePaused(schedule, timelineOf(schedule, []), now);

describe('missedWhilePaused', () => {
  const pausedAtHalfPast = pause(scheduleFrom('2024-05-01T08:30Z'), at('2024-05-01T09:30Z'));

  test('is empty for a pause without a tick, and for an export that is not paused', () => {
    expect(missed(pausedAtHalfPast, at('2024-05-01T09:59Z'))).toEqual([]);
    const resumed = unpause(pausedAtHalfPast, at('2024-05-01T12:10Z'));
    expect(missed(resumed, at('2024-05-01T14:00Z'))).toEqual([]);
  });

  test('leaves out ticks outside the window, also if the window changed during the pause', () => {
    const closed = changeWindow(
      pausedAtHalfPast,
      { endAt: at('2024-05-01T10:30Z') },
      at('2024-05-01T09:40Z'),
    );
    const reopened = changeWindow(closed, { endAt: null }, at('2024-05-01T12:10Z'));
    expect(showIntervals(missed(reopened, at('2024-05-01T14:00Z')))).toEqual([
      '2024-05-01T09:00:00Z/2024-05-01T10:00:00Z',
      '2024-05-01T12:00:00Z/2024-05-01T14:00:00Z',
    ]);
  });

  test('reaches over a change of cadence', () => {
    const changed = changeCadence(pausedAtHalfPast, daily('UTC'), at('2024-05-01T09:40Z'));
    expect(showIntervals(missed(changed, at('2024-05-02T12:00Z')))).toEqual([
      '2024-05-01T09:00:00Z/2024-05-02T00:00:00Z',
    ]);
  });

  test('holds the interval open at creation for an export created paused', () => {
    const created = scheduleFrom('2024-05-01T08:30Z', { paused: true });
    expect(showIntervals(missed(created, at('2024-05-01T09:00Z')))).toEqual([
      '2024-05-01T08:00:00Z/2024-05-01T09:00:00Z',
    ]);
  });
});
