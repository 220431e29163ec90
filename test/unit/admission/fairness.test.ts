import { describe, expect, test } from 'vitest';
import {
  crowdedShare,
  limitsOf,
  organizationShare,
} from '../../../src/service/admission/fairness.ts';

describe('organizationShare', () => {
  test('leaves one slot of four or more to other tenants', () => {
    expect([4, 5, 100].map(organizationShare)).toEqual([3, 4, 99]);
  });

  test('leaves all of fewer slots to one tenant', () => {
    expect([0, 1, 3].map(organizationShare)).toEqual([null, null, null]);
  });
});

test('an organization that crowds others has an eighth of all slots, and at least one', () => {
  const shares = [1, 4, 8, 15, 16, 100].map((slots) => crowdedShare(slots));
  expect(shares).toEqual([1, 1, 1, 1, 2, 12]);
  // Runs that have a turn together cost little more than one.
  expect(crowdedShare(24, 4)).toBe(4);
  expect(crowdedShare(4, 4)).toBe(3);
});

test('runs that heal have a quarter of each kind of slots, and small runs limits of their own if they have slots', () => {
  const large = { small: false, queued: 8, share: 3, crowdedShare: 1, healing: 1 };
  expect(limitsOf({ large: 4, small: 0 })).toEqual([large]);
  expect(limitsOf({ large: 4, small: 24 })).toEqual([
    large,
    { small: true, queued: 48, share: 23, crowdedShare: 4, healing: 6 },
  ]);
});
