import type { Attack, Target } from './attacks.ts';

/**
 * Attacks by an organization's own transformation plugins: endless loops, memory, output without end. They
 * belong here as soon as the API takes such plugins.
 */
export function ownPluginAttacks(_target: Target): readonly Attack[] {
  return [];
}
