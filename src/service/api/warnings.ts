import type { Reply } from './api.ts';

/** Adds warnings to the header Sluice-Warning of an answer. */
export function addWarnings(reply: Reply, warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  // A header holds visible ASCII.
  const shown = warnings.map((text) => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 500));
  const before = reply.getHeader('sluice-warning');
  reply.header('sluice-warning', [before, ...shown].filter((text) => text !== undefined).join(' '));
}
