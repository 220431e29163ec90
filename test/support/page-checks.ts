import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** From the sign-in page. */
export async function signInTo(page: Page, key: string): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).waitFor();
}

/** What axe finds wrong, with the elements. */
async function findViolationsOf(page: Page): Promise<unknown> {
  await page.evaluate(axe.source);
  return page.evaluate(
    'axe.run().then((r) => r.violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))',
  );
}

/** Nothing is wider than a phone. */
async function expectToFit(page: Page): Promise<void> {
  await page.setViewportSize({ width: 390, height: 844 });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** On a screen and on a phone, light and dark. */
export async function expectToBeAccessible(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      const found = await findViolationsOf(page);
      expect([colorScheme, width, found]).toEqual([colorScheme, width, []]);
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await expectToFit(page);
}
