import type { Acknowledgement } from '../../../foundation/domain/statement.ts';
import { notFound, Refusal } from '../../../foundation/domain/problem.ts';
import { appendLogEntries } from '../../../state/store/exports/log-entries.ts';
import {
  findBalance,
  lockChain,
  notifyOfLoad,
  storeAcknowledgement,
} from '../../../state/store/intervals/statements.ts';
import type { Context } from '../context.ts';

/**
 * Stores what a receiver has loaded. The next statement shows it. Both sides hear of a receiver that begins to hold another
 * number of rows than it should, and of the end of that.
 *
 * @throws Refusal if there is no such statement, or it has another digest
 */
export async function acknowledge(
  { db }: Pick<Context, 'db'>,
  { id: exportId, teamId }: { readonly id: string; readonly teamId: number },
  given: Omit<Acknowledgement, 'at'>,
): Promise<void> {
  await db.transaction(async (tx) => {
    // A new chain may replace statements meanwhile.
    const chain = await lockChain(tx, exportId);
    if (!chain) throw notFound();
    const { number, sha256, rows } = given;
    const owed = await findBalance(tx, exportId, number);
    if (owed === null) {
      const detail = `There is no statement ${number}. Give the number of one that you have loaded.`;
      throw new Refusal({ code: 'does_not_exist', detail, attr: 'number' });
    }
    if (owed.sha256 !== sha256) {
      const detail = `Statement ${number} has another SHA-256: ${owed.sha256}. Load it again, and check what you have with the checker.`;
      throw new Refusal({ code: 'invalid_input', detail, attr: 'sha256' });
    }
    const { acknowledged: last } = chain;
    const before = last && (await findBalance(tx, exportId, last.number));
    const wasWrong = last !== null && before?.sha256 === last.sha256 && before.rows !== last.rows;
    const isWrong = rows !== owed.rows;
    await storeAcknowledgement(tx, exportId, given);
    if (isWrong === wasWrong) return;
    const facts = { number, sha256, rows, rows_of_balance: owed.rows };
    await notifyOfLoad(tx, exportId, isWrong ? 'load.differs' : 'load.agrees', facts);
    const level = isWrong ? 'WARNING' : 'INFO';
    const message = isWrong
      ? `The receiver says that it holds ${rows} rows after statement ${number}, whose balance is ${owed.rows}.`
      : `The receiver holds the ${rows} rows of statement ${number} again.`;
    await appendLogEntries(tx, [{ teamId, exportId, runId: null, level, message }]);
  });
}
