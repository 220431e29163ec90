import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import { describeError } from '../../../src/foundation/domain/describe-error.ts';
import { toSluiceError } from '../../../src/foundation/domain/errors.ts';
import { createEmptyDatabase, type TestDatabase } from '../../support/database.ts';

const column = (name: string, sourceType: string) => ({
  name,
  expression: null,
  sourceType,
  json: false,
});
const modelOf = (name: string, rowSecurity: 'filtered' | null = null): Model => ({
  name,
  relation: { schema: 'public', name },
  tenantColumn: 'team',
  intervalColumn: 'at',
  keyColumns: ['id'],
  eventColumn: null,
  rowSecurity,
  columns: [
    column('id', 'bigint'),
    column('at', 'timestamp with time zone'),
    column('note', 'text'),
  ],
});
const at = Date.parse('2024-03-01T10:00:00Z');
const interval = { start: at, end: at + 3_600_000 };
const { signal } = new AbortController();

/** The words of a run, of a check before it, and of a preview's row. */
async function wordsOf(url: string, model: Model): Promise<readonly string[]> {
  const source = createPostgresSource({ connectionString: url, plan: planModels([model]) });
  const request = {
    model: model.name,
    tenantKey: '1',
    interval,
    dslQuery: null,
    includeEvents: null,
    excludeEvents: null,
  };
  const run = async () => {
    const snapshot = await source.open(request, signal);
    try {
      for (const slice of snapshot.slices) for await (const _ of snapshot.read(slice, signal));
    } finally {
      await snapshot.close();
    }
  };
  const tried = [
    run(),
    source.describe(request, signal),
    source.tryRow(model.name, '1', false, signal),
  ];
  const ended = await Promise.allSettled(tried);
  return ended.map((one) =>
    one.status === 'fulfilled' ? '' : describeError(toSluiceError(one.reason)),
  );
}

describe('a policy that raises', () => {
  let database: TestDatabase;
  let readerUrl: string;
  const reader = 'culprits_reader';
  const tables = ['divides', 'calls', 'stable'];

  beforeAll(async () => {
    database = await createEmptyDatabase();
    await database.admin.query(
      `create role ${reader} login password 'reader' in role pg_read_all_stats`,
    );
    await database.pool.query(`
      create function refuse(bigint) returns boolean language plpgsql as $$ begin raise 'no ticket'; end $$;
      create function nothing() returns int language sql stable as 'select 0';
      ${tables
        .map(
          (
            name,
          ) => `create table ${name} (id bigint primary key, team int not null, at timestamptz not null, note text);
        insert into ${name} values (1, 1, '2024-03-01T10:30:00Z', 'a');
        alter table ${name} enable row level security; grant select on ${name} to ${reader};`,
        )
        .join('\n')}
      create policy own_rows on divides using (team / (id - 1) > 0);
      create policy own_rows on calls using (refuse(id));
      create policy own_rows on stable using (1 / nothing() = team)`);
    const url = new URL(database.url);
    url.username = reader;
    url.password = 'reader';
    readerUrl = url.href;
  });
  afterAll(async () => {
    await database.admin.query(`drop owned by ${reader}; drop role ${reader}`);
    await database.drop();
  });

  it.each(tables)('is named by a run, and not the columns: %s', async (name) => {
    for (const filtered of ['filtered', null] as const) {
      const words = await wordsOf(readerUrl, modelOf(name, filtered));
      const named = words.filter((text) => text !== '');
      expect(named.length).toBeGreaterThan(0);
      for (const text of named) {
        expect(text).toContain('the policy own_rows');
        expect(text).toContain(`public.${name}`);
      }
    }
  });
});

describe('a text that has no form in UTF-8', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createEmptyDatabase(undefined, `encoding 'WIN1252' locale 'C'`);
    await database.pool.query(`
      create table notes (id bigint primary key, team int not null, at timestamptz not null, note text);
      insert into notes select n, 1, '2024-03-01T10:30:00Z', case n when 37 then 'x' || chr(129) else 'fine' end
        from generate_series(1, 100) n`);
  });
  afterAll(() => database.drop());

  it('is named with its column, its key and the interval', async () => {
    const [run = ''] = await wordsOf(database.url, modelOf('notes'));
    expect(run).toContain(
      'in the column note of the row with id 37, of 2024-03-01T10:00:00Z to 2024-03-01T11:00:00Z',
    );
  });
});
