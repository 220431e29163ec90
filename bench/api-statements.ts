import type { Database, Sql } from '../src/state/store/database/database.ts';

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What one request asks of Postgres, in order; a list inside the list is a transaction. */
export type Script = readonly (Statement | readonly Statement[])[];

/** A database that writes down what it is asked. */
export function recording(db: Database): { readonly db: Database; readonly take: () => Script } {
  let script: (Statement | readonly Statement[])[] = [];
  const into = (sql: Sql, noted: Pick<Statement[], 'push'>): Sql => ({
    query(text, values = []) {
      noted.push({ text, values });
      return sql.query(text, values);
    },
  });
  return {
    db: {
      query: (text, values) => into(db, script).query(text, values),
      transaction(work) {
        const statements: Statement[] = [];
        script.push(statements);
        return db.transaction((tx) => work(into(tx, statements)));
      },
      close: () => db.close(),
    },
    take() {
      const taken = script;
      script = [];
      return taken;
    },
  };
}

/** @returns the rows of each statement */
export async function replay(db: Database, script: Script): Promise<object[][]> {
  const answers: object[][] = [];
  for (const step of script) {
    if ('text' in step) answers.push(await db.query(step.text, step.values));
    else {
      await db.transaction(async (tx) => {
        for (const { text, values } of step) answers.push(await tx.query(text, values));
      });
    }
  }
  return answers;
}
