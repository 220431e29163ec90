import { test } from 'vitest';

/**
 * Whether this is `npm run test:nightly`. A test that proves the same in many cases runs the most different
 * ones in `npm test` and all of them at night.
 */
export const isNightly = process.env.NIGHTLY_TESTS === 'nightly';

/** The cases of `npm test`; at night these and the rest. */
export function casesOf<Case>(byDay: readonly Case[], rest: readonly Case[]): readonly Case[] {
  return isNightly ? [...byDay, ...rest] : byDay;
}

/** The first ones of a list: those that differ most; at night all. */
export function firstByDay<const Case>(count: number, cases: readonly Case[]): readonly Case[] {
  return isNightly ? cases : cases.slice(0, count);
}

/** A test of the night alone. */
export const atNight = test.runIf(isNightly);
