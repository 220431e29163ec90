import { healNow } from '../../../state/store/healing/healing.ts';
import type { Context } from '../context.ts';

/** The stored destination of an export has passed a test: what held the export up may be over. */
export async function notePassedTest({ db }: Pick<Context, 'db'>, exportId: string): Promise<void> {
  await healNow(db, exportId);
}
