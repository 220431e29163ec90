import { AsyncLocalStorage } from 'node:async_hooks';
import type { Database, Sql } from '../store/database.ts';
import type { Context } from '../use-cases/context.ts';

/** What a request does within one transaction of its own. */
interface Joined {
  readonly tx: Sql;
  /** Bells to be rung once it is committed. */
  readonly rings: (() => void)[];
}

/** The use cases' context, and a way to let all that they write belong to one transaction. */
export interface JoinableContext {
  readonly context: Context;
  /** Whatever `work` does by way of `context` takes effect with `tx`, or not at all. */
  within<T>(work: (tx: Sql, join: <U>(inner: () => U) => U) => Promise<T>): Promise<T>;
}

export function joinableContext({ db, doorbell, ...rest }: Context): JoinableContext {
  const joined = new AsyncLocalStorage<Joined>();
  const ring = (bell: () => void): void => {
    const rings = joined.getStore()?.rings;
    if (rings) rings.push(bell);
    else bell();
  };
  const joinedDb: Database = {
    query: (text, values) => (joined.getStore()?.tx ?? db).query(text, values),
    transaction(work) {
      const outer = joined.getStore();
      return outer ? inSavepoint(outer.tx, work) : db.transaction(work);
    },
    close: () => db.close(),
  };
  return {
    context: {
      ...rest,
      db: joinedDb,
      doorbell: {
        runsWaiting: () => ring(() => doorbell.runsWaiting()),
        backfillWaiting: (id) => ring(() => doorbell.backfillWaiting(id)),
      },
    },
    async within(work) {
      const rings: (() => void)[] = [];
      const result = await db.transaction((tx) =>
        work(tx, (inner) => joined.run({ tx, rings }, inner)),
      );
      for (const bell of rings) bell();
      return result;
    },
  };
}

/** A transaction inside another: what it throws undoes what it did, and no more. */
async function inSavepoint<T>(tx: Sql, work: (tx: Sql) => Promise<T>): Promise<T> {
  await tx.query('savepoint inner_work');
  try {
    const result = await work(tx);
    await tx.query('release savepoint inner_work');
    return result;
  } catch (error) {
    await tx.query('rollback to savepoint inner_work');
    throw error;
  }
}
