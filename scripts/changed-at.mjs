import { readdirSync, statSync } from 'node:fs';

/** When a file, or the newest one below a folder, was changed: milliseconds; 0 if there is none. */
export function changedAt(path) {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) return 0;
  const below = stats.isDirectory() ? readdirSync(path).map((name) => `${path}/${name}`) : [];
  // A folder's own time changes when a file is removed.
  return Math.max(stats.mtimeMs, ...below.map(changedAt));
}
