import pg from 'pg';
import type { Model } from '../../src/foundation/domain/model.ts';
import { triggerStatements } from '../../src/rows/changes/trigger-sql.ts';
import { withClient } from './drop-database.ts';
import { plainModel } from './plain-model.ts';

/** The project whose rows are exported. */
export const tenant = '7';

/** A partitioned table whose rows change, move and go. */
export const changingModel: Model = {
  ...plainModel('things', { id: 'bigint', kind: 'integer', note: 'text', price: 'numeric(10,2)' }),
  intervalColumn: null,
  changes: {
    versionColumn: 'version',
    setBy: 'database',
    deletes: { kind: 'tombstones', relation: { schema: 'public', name: 'gone' }, days: null },
  },
};

/** The same table. Its deletes are found by comparing keys, once in so many elements. */
export const comparedModel = (every: number): Model => ({
  ...changingModel,
  changes: { versionColumn: 'version', setBy: 'database', deletes: { kind: 'compare', every } },
});

/** Makes the table, and all that `sluice models trigger` prints for it. */
export async function createChangingTable(url: string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query(`
      create table things (id bigint not null, team int not null, kind int not null, note text, price numeric(10,2),
        primary key (id, kind)) partition by list (kind);
      create table things_0 partition of things for values in (0);
      create table things_1 partition of things for values in (1)`);
    for (const { sql } of triggerStatements(changingModel)) await client.query(sql);
  });
}

const pools = new Map<string, pg.Pool>();

/** One session for each database. It ends after a few seconds without use, or with its server. */
function poolOf(url: string): pg.Pool {
  const pool =
    pools.get(url) ?? new pg.Pool({ connectionString: url, max: 1, idleTimeoutMillis: 5_000 });
  if (!pools.has(url)) pool.on('error', () => {});
  pools.set(url, pool);
  return pool;
}

/** Each statement in a transaction of its own, in one session. @returns the rows of the last */
export async function runSql(url: string, ...statements: readonly string[]) {
  let rows: Record<string, unknown>[] = [];
  for (const statement of statements) ({ rows } = await poolOf(url).query(statement));
  return rows;
}

/** What a session does next. */
export interface WriterStep {
  readonly session: number;
  readonly does: (typeof writerSteps)[number];
  readonly id: number;
  readonly value: number;
}

export const writerSteps = [
  'begin',
  'insert',
  'update',
  'delete',
  'rekey',
  'move',
  'leave',
  'copy',
  'savepoint',
  'rollbackTo',
  'commit',
  'rollback',
  'prepare',
  'commitPrepared',
] as const;

/** Sessions that write at the same time, one statement after the other. What waits for another session's lock fails at once. */
export class Writers {
  readonly #clients: pg.Client[] = [];
  readonly #prepared: string[] = [];
  #named = 0;

  /** One more than `count` is open: a prepared transaction ends outside of any other. */
  static async open(url: string, count: number): Promise<Writers> {
    const writers = new Writers();
    for (let index = 0; index <= count; index += 1) {
      const client = new pg.Client(url);
      client.on('error', () => {});
      await client.connect();
      await client.query(`set lock_timeout = '20ms'`);
      writers.#clients.push(client);
    }
    return writers;
  }

  async do({ session, does, id, value }: WriterStep): Promise<void> {
    const client = this.#clients[session % (this.#clients.length - 1)];
    if (!client) return;
    try {
      await this.#execute(client, does, id, value);
    } catch {
      await client.query('rollback').catch(() => {});
    }
  }

  async #execute(client: pg.Client, does: WriterStep['does'], id: number, value: number) {
    const mine = `where id = ${id} and team = ${tenant}`;
    const isFree = `not exists (select from things where id = ${id})`;
    switch (does) {
      case 'insert':
        return client.query(
          `insert into things select ${id}, ${tenant}, ${id % 2}, 'made ${value}', ${value} where ${isFree}`,
        );
      case 'update':
        return client.query(`update things set note = 'note ${value}', price = ${value} ${mine}`);
      case 'delete':
        return client.query(`delete from things ${mine}`);
      case 'rekey':
        return client.query(
          `update things set id = ${id}, kind = ${id % 2} where id = ${(id + value) % 12} and team = ${tenant} and ${isFree}`,
        );
      case 'move':
        return client.query(`update things set kind = 1 - kind ${mine}`);
      case 'leave':
        // Now of another project, or back.
        return client.query(
          `update things set team = ${Number(tenant) + 1} - (team - ${tenant}) where id = ${id}`,
        );
      case 'copy':
        return this.#copy(client, id, value);
      case 'rollbackTo':
        return client.query('rollback to a');
      case 'prepare': {
        this.#named += 1;
        const name = `changing ${this.#named}`;
        await client.query(`prepare transaction '${name}'`);
        this.#prepared.push(name);
        return;
      }
      case 'commitPrepared': {
        const name = this.#prepared.shift();
        if (name === undefined) return;
        return this.#clients
          .at(-1)
          ?.query(`${value % 4 === 0 ? 'rollback' : 'commit'} prepared '${name}'`);
      }
      default:
        return client.query(does === 'savepoint' ? 'savepoint a' : does);
    }
  }

  /** COPY fires triggers too. The protocol's data is one row. */
  async #copy(client: pg.Client, id: number, value: number): Promise<void> {
    const free = await client.query(`select from things where id = ${id}`);
    if (free.rowCount !== 0) return;
    const file = `copy things (id, team, kind, note, price) from program 'echo "${id},${tenant},${id % 2},copied ${value},${value}"' with (format csv)`;
    await client.query(file);
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.query('rollback').catch(() => {});
    const last = this.#clients.at(-1);
    // PREPARE of a failed transaction is a ROLLBACK.
    for (const name of this.#prepared) {
      await last?.query(`rollback prepared '${name}'`).catch(() => {});
    }
    await Promise.all(this.#clients.map((client) => client.end()));
  }
}
