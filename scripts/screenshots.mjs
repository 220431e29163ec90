/**
 * `npm run screenshots` writes docs/images/*.png: the page of a service with sample data, in Chromium. It needs
 * /usr/bin/chromium. Its times are those of now, so look at the pictures before you commit them.
 */

import { startVitest } from 'vitest/node';

process.env.REQUIRE_BROWSER = '1';
const vitest = await startVitest('test', [], {
  config: false,
  watch: false,
  include: ['test/screenshots/screenshots.ts'],
  globalSetup: ['test/support/global-setup.ts'],
  testTimeout: 180_000,
  hookTimeout: 240_000,
});
await vitest.close();
