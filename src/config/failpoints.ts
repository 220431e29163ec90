/**
 * FAILPOINTS, which breaks a process on purpose: `place=action` separated by `;`. Heeded under
 * NODE_ENV=test only, so it is no setting of an installation.
 */
export function readFailpoints(env: Record<string, string | undefined> = process.env): string {
  return env.NODE_ENV === 'test' ? (env.FAILPOINTS ?? '') : '';
}
