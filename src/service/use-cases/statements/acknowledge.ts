import type { Acknowledgement } from '../../../foundation/domain/statement.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import { acknowledgeStatement, lockChain } from '../../../state/store/intervals/statements.ts';
import type { Context } from '../context.ts';

/**
 * Stores what a receiver has loaded. The next statement shows it.
 *
 * @throws Refusal if there is no such statement, or it has another digest
 */
export async function acknowledge(
  { db }: Pick<Context, 'db'>,
  exportId: string,
  given: Omit<Acknowledgement, 'at'>,
): Promise<void> {
  await db.transaction(async (tx) => {
    // A new chain may replace statements meanwhile.
    await lockChain(tx, exportId);
    const sha256 = await acknowledgeStatement(tx, exportId, given);
    if (sha256 === given.sha256) return;
    const { number } = given;
    if (sha256 === null) {
      const detail = `There is no statement ${number}. Give the number of one that you have loaded.`;
      throw new Refusal({ code: 'does_not_exist', detail, attr: 'number' });
    }
    const detail = `Statement ${number} has another SHA-256: ${sha256}. Load it again, and check what you have with the checker.`;
    throw new Refusal({ code: 'invalid_input', detail, attr: 'sha256' });
  });
}
