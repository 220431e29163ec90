import { expect } from 'vitest';
import { insertRuns } from '../../src/state/store/runs/runs.ts';
import { runCli } from './cli.ts';
import { createS3Export, readRuns, untilEnded } from './exported-events.ts';
import { bucket, type Installation } from './installation.ts';
import { shopVariable } from './stranger-shop.ts';

const hourMs = 3_600_000;
const firstStart = Date.parse('2024-03-01T00:00:00Z');

/** A table of the shop whose rows change, as the models file has it. */
export const customers = {
  name: 'customers',
  relation: 'public.customers',
  source: shopVariable,
  tenant_column: 'account',
  key_columns: ['id'],
  version_column: 'version',
  deletes: 'tombstones',
  tombstone_relation: 'public.gone_customers',
  columns: [
    { name: 'id', type: 'bigint' },
    { name: 'name', type: 'text' },
    { name: 'paid', type: 'numeric(10,2)' },
    { name: 'seen', type: 'timestamp with time zone' },
    { name: 'tags', type: 'text[]' },
    { name: 'more', type: 'jsonb' },
  ],
};

/** Makes the table, and runs what `sluice models trigger` prints for it. */
export async function createCustomers(
  { shop, env }: Installation,
  change = (sql: string) => sql,
): Promise<void> {
  await shop.query(
    'create table public.customers (account int, id bigint, name text, paid numeric(10,2), seen timestamptz, tags text[], more jsonb, primary key (account, id))',
  );
  const printed = await runCli(['models', 'trigger', 'customers', '--json'], { env });
  for (const { sql } of JSON.parse(printed.out)) await shop.query(change(sql));
  // As sluice models grants prints it.
  await shop.query('grant select on public.gone_customers to public');
}

export interface SeenManifest {
  readonly mode: string;
  readonly element: {
    readonly number: number;
    readonly follows: number | null;
    readonly base: string | null;
    readonly deletes: number;
  };
  readonly files: readonly { readonly key: string }[];
}

/** What tests do with exports of changes of `customers`. */
export function elementRuns(installed: () => Installation) {
  const account = () => installed().tenant.projectIds[0];

  const hourOf = (index: number) => {
    const start = firstStart + index * hourMs;
    return { start, end: start + hourMs };
  };

  /** The schedule asks for an hour. */
  async function ask(exportId: string, index: number): Promise<void> {
    const run = { exportId, teamId: account(), interval: hourOf(index), backfillId: null };
    expect(await insertRuns(installed().db, [run])).toHaveLength(1);
  }

  async function take(exportId: string, index: number): Promise<void> {
    const { length: before } = await readRuns(installed(), exportId);
    await ask(exportId, index);
    const runs = await untilEnded(installed(), exportId, { count: before + 1 });
    expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
  }

  /** The manifests of an export that a reader finds in the bucket, by their numbers. */
  async function elementsOf(exportId: string): Promise<readonly SeenManifest[]> {
    const { s3 } = installed();
    const keys = (await s3.objects(bucket)).map(({ key }) => key);
    const found = await Promise.all(
      keys
        .filter((key) => key.startsWith(`${exportId}/`) && key.endsWith('_manifest.json'))
        .map(async (key) => JSON.parse(String(await s3.body(bucket, key))) as SeenManifest),
    );
    return found.toSorted((a, b) => a.element.number - b.element.number);
  }

  /** A customer's program that looks now and then. It gives its rows, by id. */
  function openReader(exportId: string): () => Promise<Readonly<Record<number, string>>> {
    const rows = new Map<number, string>();
    let applied = -1;
    return async () => {
      for (const { element, files } of await elementsOf(exportId)) {
        if (element.number <= applied) continue;
        if (element.follows === null) rows.clear();
        else expect(element.follows).toBeLessThanOrEqual(applied);
        applied = element.number;
        for (const { key } of files) {
          const text = String(await installed().s3.body(bucket, key));
          for (const line of text.split('\n').filter(Boolean)) {
            const { id, name, _sluice_op: op } = JSON.parse(line);
            if (op === 'd') rows.delete(id);
            else rows.set(id, name);
          }
        }
      }
      return Object.fromEntries(rows);
    };
  }

  return {
    ...{ account, hourOf, ask, take, elementsOf, openReader },
    /** The rows after all elements, by id. */
    replay: (exportId: string) => openReader(exportId)(),

    createChanges: (changes = {}) =>
      createS3Export(installed(), { model: 'customers', mode: 'changes', ...changes }),

    async write(id: number, name: string): Promise<void> {
      await installed().shop.query(
        `insert into public.customers values ($1, $2, $3) on conflict (account, id) do update set name = excluded.name`,
        [account(), id, name],
      );
    },

    remove: (id: number) =>
      installed().shop.query('delete from public.customers where account = $1 and id = $2', [
        account(),
        id,
      ]),
  };
}
