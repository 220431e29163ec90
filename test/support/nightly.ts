/**
 * Whether this is `npm run test:nightly`. By day a test that proves the same in many cases runs those that
 * differ most; at night it runs all of them.
 */
export const isNightly = process.env.SLUICE_TESTS === 'nightly';

/** The cases by day, and at night these and the rest. */
export function casesOf<Case>(byDay: readonly Case[], rest: readonly Case[]): readonly Case[] {
  return isNightly ? [...byDay, ...rest] : byDay;
}
