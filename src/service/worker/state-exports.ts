import {
  findDueStatement,
  findTeamsWithStatements,
  putOffStatement,
} from '../../state/store/intervals/statements.ts';
import { failpoint } from '../../foundation/failpoints/failpoint.ts';
import { makeStatement } from '../use-cases/statements/make-statement.ts';
import { collectByTeam, teamPatienceMs } from './collect-uploads.ts';
import { putStatements, type StatementOptions } from './put-statements.ts';
import { reconcile } from './reconcile.ts';

/** For the lists of one team in one sweep. */
const listPatienceMs = 20_000;

/** Makes the statements that are due, and puts those that wait: of each team for itself, so no store delays others. */
export async function stateExports(options: StatementOptions): Promise<void> {
  const { context, guard, onSweepError } = options;
  const { db } = context;
  const done = new Map<number, string[]>();
  const listedMs = new Map<number, number>();
  await collectByTeam(
    options,
    (limit) => findTeamsWithStatements(db, limit),
    async (teamId, signal) => {
      const served = done.get(teamId) ?? [];
      done.set(teamId, served);
      const due = await findDueStatement(db, teamId, served);
      if (!due) return false;
      const { exportId, isToMake } = due;
      served.push(exportId);
      await guard.do({ kind: 'statement', id: exportId }, teamPatienceMs, async () => {
        if (isToMake) {
          const begin = performance.now();
          const spent = listedMs.get(teamId) ?? 0;
          const reconciliation = await reconcile(options, exportId, listPatienceMs - spent, signal);
          listedMs.set(teamId, spent + performance.now() - begin);
          await failpoint('before_statement');
          await makeStatement(context, options.statements, exportId, reconciliation).catch(
            async (error: unknown) => {
              await putOffStatement(db, exportId);
              onSweepError(error);
            },
          );
        }
        await putStatements(options, exportId, signal);
      });
      return true;
    },
  );
}
