/** Uploads of attempts, as our database notes them. */

import type { Rules } from './protocol.ts';
import { type Attempt, type Config, type Database, keyOf } from './state.ts';

/** The upload of the attempt's file; empty if it has none, because it is small. */
export function openFile(db: Database, attempt: Omit<Attempt, 'upload'>, rules: Rules): string {
  const { config, generation, run } = attempt;
  const open = db.uploads.some((id) => id.startsWith(lineageOf(config, generation, run)));
  const isPut = config.isSmall === true && rules.store.ifNoneMatch && !open;
  return isPut ? '' : noteUpload(db, attempt);
}

const lineageOf = (config: Config, generation: number, run: number) =>
  `${keyOf(config, generation)} of run ${run + 1}`;

/** An upload of this lineage at this key is resumed; else a new one is noted. */
export function noteUpload(
  db: Database,
  { config, generation, run, fence, era }: Omit<Attempt, 'upload'>,
): string {
  const lineage = lineageOf(config, generation, run);
  const open = db.uploads.find((id) => id.startsWith(lineage));
  if (open !== undefined) return open;
  const id = `${lineage} by ${era}.${fence}`;
  db.uploads.push(id);
  return id;
}
