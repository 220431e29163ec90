import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { casesOf } from './nightly.ts';

/** From the sign-in page. */
export async function signInTo(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).waitFor();
}

/** What axe finds wrong, with the elements. */
async function findViolationsOf(page: Page): Promise<unknown> {
  // Once in each document: it is half a megabyte.
  if (await page.evaluate(`typeof axe === 'undefined'`)) await page.evaluate(axe.source);
  return page.evaluate(
    'axe.run().then((r) => r.violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))',
  );
}

/** Widths in pixels. By day each scheme and each width once. */
const looks = casesOf<readonly ['light' | 'dark', number]>(
  [
    ['light', 1440],
    ['dark', 390],
  ],
  [
    ['dark', 1440],
    ['light', 390],
  ],
);

/**
 * The page as it is now breaks no rule of axe, light or dark, on a screen or on a phone, which it fits. Leaves it
 * light, as wide as it was.
 */
export async function expectToBeAccessible(page: Page): Promise<void> {
  const { width: given = 1280, height = 800 } = page.viewportSize() ?? {};
  for (const [colorScheme, width] of looks) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    const found = await findViolationsOf(page);
    expect([colorScheme, width, found]).toEqual([colorScheme, width, []]);
    const shown = await page.evaluate('document.documentElement.scrollWidth');
    expect(shown, `${width} pixels`).toBeLessThanOrEqual(width);
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize({ width: given, height });
}
