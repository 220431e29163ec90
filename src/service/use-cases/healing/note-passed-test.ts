import { hastenProbes } from '../../../state/store/healing/causes.ts';
import type { Context } from '../context.ts';

/** The stored destination of an export has passed a test: what holds the export up is probed at once. */
export async function notePassedTest({ db }: Pick<Context, 'db'>, exportId: string): Promise<void> {
  await hastenProbes(db, exportId);
}
