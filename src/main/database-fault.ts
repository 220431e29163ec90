import type { Database } from '../store/database.ts';

/** A check that takes longer has failed. */
const patienceMs = 3_000;

/** What is wrong with Postgres, without addresses and names of the inside; null if nothing is. */
export async function findDatabaseFault(db: Database): Promise<string | null> {
  const tooLate = new Promise<string>((resolve) => {
    setTimeout(resolve, patienceMs, `no answer within ${patienceMs} ms`).unref();
  });
  try {
    return await Promise.race([db.query('select 1').then(() => null), tooLate]);
  } catch (error) {
    return `unreachable${error instanceof Error && 'code' in error ? ` (${String(error.code)})` : ''}`;
  }
}
