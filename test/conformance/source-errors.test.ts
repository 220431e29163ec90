/** The codes and words that errors of a real PostgreSQL become. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SluiceError } from '../../src/foundation/domain/errors.ts';
import type { Model } from '../../src/foundation/domain/model.ts';
import { withClient } from '../support/drop-database.ts';
import { plainColumn } from '../support/plain-model.ts';
import {
  type SourceCase,
  type SourceServer,
  caseRequest,
  openSourceCase,
  outcomeOf,
  relation,
  useSourceCase,
} from '../support/source-cases.ts';

const never = new AbortController().signal;

const { server, shop } = useSourceCase();

beforeAll(async () => {
  await shop.run(
    `create role "${shop.reader}_Lender"; grant usage on schema shop to "${shop.reader}_Lender"`,
  );
});

afterAll(async () => {
  await shop?.run(
    `drop owned by "${shop.reader}_Lender" cascade; drop role "${shop.reader}_Lender"`,
  );
});

describe('an error', () => {
  const failing = (changes: Partial<Model>, dslQuery: string | null = null) =>
    shop.read(changes, { dslQuery }).then(
      () => null,
      (error: SluiceError) => error,
    );

  test('of a function behind a view has its words, and is no outage', async () => {
    await shop.create(`
        create function shop.boom() returns int language plpgsql stable as $$ begin raise exception 'the tenant is not set'; end $$;
        create view shop.raising as select id, team, at, shop.boom()::text as v from shop.base;
        create table shop.guarded (like shop.base including all); insert into shop.guarded select * from shop.base;
        alter table shop.guarded enable row level security;
        create policy raises on shop.guarded using (shop.boom() = 1)`);
    const raised = {
      code: 'source.function_failed',
      detail: expect.stringMatching(/^the tenant is not set, in PL\/pgSQL function shop\.boom/),
    };
    expect(await failing(relation('raising'))).toMatchObject(raised);
    expect(await failing(relation('raising'), `SELECT v FROM rows WHERE v = 'a'`)).toMatchObject(
      raised,
    );
    expect(await failing({ ...relation('guarded'), rowSecurity: 'filtered' })).toMatchObject({
      code: 'source.unsupported',
      detail: expect.stringMatching(/shop\.boom\(\).* by the policy raises of shop\.guarded, /),
    });
    expect(await shop.check(relation('raising'))).toContainEqual(
      expect.stringMatching(/^error: source\.function_failed: the tenant is not set, in /),
    );
  });

  test('of a cast in a view is not the fault of a query', async () => {
    await shop.create(
      `create view shop.casting as select id, team, at, v::int::text as v, v as plain from shop.base`,
    );
    const columns = [
      plainColumn('id', 'bigint'),
      plainColumn('v', 'text'),
      plainColumn('plain', 'text'),
    ];
    const casting = { ...relation('casting'), columns };
    const ofModel = {
      code: 'source.model_invalid',
      detail: 'invalid input syntax for type integer: …',
    };
    expect(await failing(casting)).toMatchObject(ofModel);
    expect(await failing(casting, 'SELECT id, v FROM rows')).toMatchObject(ofModel);
    expect(await shop.check(casting)).toContainEqual(
      expect.stringContaining('error: source.model_invalid: invalid input syntax'),
    );
    // The query's own cast names its value.
    const own = await failing({}, 'SELECT v::int AS n FROM rows WHERE id = 5');
    expect(own).toMatchObject({
      code: 'query.invalid',
      detail: 'invalid input syntax for type integer: "v5"',
    });
  });

  test('of a right says which role needs which GRANT', async () => {
    const denied = async (changes: Partial<Model>) => {
      const error = await failing(changes);
      expect(error?.code).toBe('source.permission_denied');
      return error?.detail;
    };
    const owner = `${shop.reader}_owner`;
    await shop.create(`
        create role ${owner}; grant usage on schema shop to ${owner};
        create table shop.secret (like shop.base including all);
        create view shop.owned as select * from shop.secret; alter view shop.owned owner to ${owner}`);
    expect(await denied(relation('owned'))).toContain(
      `for the role ${owner}, with whose rights the view shop.owned reads. GRANT SELECT ON shop.secret TO ${owner}`,
    );
    await shop.run(`revoke select on shop.secret from ${shop.reader}`);
    expect(await denied(relation('secret'))).toContain(
      `GRANT SELECT ON shop.secret TO ${shop.reader}`,
    );
    await shop.run(`create schema hidden; create table hidden.base (like shop.base);
        grant select on hidden.base to ${shop.reader}`);
    expect(await denied({ relation: { schema: 'hidden', name: 'base' } })).toContain(
      `GRANT USAGE ON SCHEMA hidden TO ${shop.reader}`,
    );
    await shop.run(`create function shop.closed() returns int language sql stable as 'select 1';
        revoke execute on function shop.closed() from public;
        create view shop.calling as select id, team, at, shop.closed()::text as v from shop.base;
        grant select on shop.calling to ${shop.reader}`);
    expect(await denied(relation('calling'))).toContain(
      `GRANT EXECUTE ON FUNCTION shop.closed() TO ${shop.reader}`,
    );
    // The message has no schema: another function of the name is no reason to name the wrong one.
    await shop.run(`create schema hidden_too; create function hidden_too.closed() returns int language sql as 'select 1';
        revoke execute on function hidden_too.closed() from public`);
    expect(await denied(relation('calling'))).toContain(
      `GRANT EXECUTE ON FUNCTION closed TO ${shop.reader}`,
    );
    await shop.run(`create sequence shop.numbers;
        create view shop.numbered with (security_invoker) as
          select id, team, at, (select last_value from shop.numbers)::text as v from shop.base;
        grant select on shop.numbered to ${shop.reader}`);
    expect(await denied(relation('numbered'))).toContain(
      `GRANT SELECT ON SEQUENCE shop.numbers TO ${shop.reader}`,
    );
    await shop.run(`drop owned by ${owner} cascade; drop role ${owner}`);
  });

  test('of the login says what to correct, by the name of the setting', async () => {
    const refusedAt = async (change: (url: URL) => void) => {
      const url = new URL(shop.url);
      change(url);
      const options = { connectionString: url.href, addressName: 'SHOP_URL' };
      const [code, detail] = String(await outcomeOf(shop.source({}, options))).split(/ (.*)/);
      expect(code).toBe('source.access_refused');
      return detail;
    };
    expect(await refusedAt((url) => (url.pathname = '/no_such_database'))).toBe(
      'SHOP_URL: the database of the address does not exist (SQLSTATE 3D000)',
    );
    expect(await refusedAt((url) => url.searchParams.set('sslmode', 'verify-full'))).toContain(
      'SHOP_URL: the address asks for TLS, but the server offers none',
    );
    await shop.run(`alter role ${shop.reader} nologin`);
    expect(await refusedAt(() => {})).toMatch(/^SHOP_URL: .* \(SQLSTATE 28000\)/);
    await shop.run(`alter role ${shop.reader} login`);
    const name = new URL(shop.url).pathname.slice(1);
    await shop.run(`revoke connect on database "${name}" from public`);
    expect(await refusedAt(() => {})).toBe(
      `SHOP_URL: the role ${shop.reader} may not connect to the database. GRANT CONNECT ON DATABASE ${name} TO ${shop.reader}`,
    );
    await shop.run(`grant connect on database "${name}" to public`);
    await shop.run(`alter role ${shop.reader} connection limit 0`);
    const limited = shop.source().open(caseRequest(), never);
    await expect(limited).rejects.toMatchObject({
      code: 'source.out_of_resources',
      detail: expect.stringMatching(
        /too many connections for role .* Raise it by ALTER ROLE … CONNECTION LIMIT; 0 lets no session in$/,
      ),
    });
    await shop.run(`alter role ${shop.reader} connection limit -1`);
  });

  test('that a RAISE has chosen the SQLSTATE of is that of its function', async () => {
    await shop.create(`create function shop.raises(text) returns text language plpgsql stable as
        $$ begin raise exception 'chosen' using errcode = $1; end $$`);
    for (const state of ['40001', '57P01', '28P01', '42501', '53300', '08006', 'AB123', 'XX000']) {
      await shop.create(
        `create or replace view shop.chosen as select id, team, at, shop.raises('${state}') as v from shop.base`,
      );
      const error = await failing(relation('chosen'));
      expect([state, error?.code, error?.detail]).toEqual([
        state,
        'source.function_failed',
        expect.stringMatching(/^chosen, in PL\/pgSQL function shop\.raises/),
      ]);
    }
  });

  test.each<[string, string, Partial<Model>, RegExp]>([
    ['a missing table', '', relation('nowhere'), /relation "shop.nowhere" does not exist/],
    [
      'a changed type',
      `alter table shop.one add n int; update shop.one set n = id`,
      { columns: [plainColumn('n', 'text')] },
      /column n is integer in the database, but text in the model rows/,
    ],
    [
      'a policy',
      'alter table shop.one enable row level security; create policy few on shop.one using (id < 9)',
      {},
      /the policy few may leave out rows/,
    ],
    [
      'a missing right',
      'revoke select on shop.one from {reader}',
      {},
      /GRANT SELECT ON shop\.one TO reader_/,
    ],
    [
      'a function that raises',
      `create function shop.no() returns text language plpgsql as $$ begin raise exception 'not today'; end $$;
         create view shop.of_one as select id, team, at, shop.no() as v from shop.one; grant select on shop.of_one to {reader}`,
      relation('of_one'),
      /not today, in PL\/pgSQL function shop\.no\(\)/,
    ],
    [
      'a cast of a view',
      'create view shop.of_one as select id, team, at, (v::int)::text as v from shop.one; grant select on shop.of_one to {reader}',
      relation('of_one'),
      /invalid input syntax for type integer: …/,
    ],
    [
      'a condition of a view',
      'create view shop.of_one as select * from shop.one where v::int > 0; grant select on shop.of_one to {reader}',
      relation('of_one'),
      /invalid input syntax for type integer: …/,
    ],
    [
      'a schema that the role may not use',
      `create schema apart; create domain apart.amount as int; alter table shop.one add n apart.amount`,
      { columns: [plainColumn('n', 'apart.amount')] },
      /permission denied for schema apart\. GRANT USAGE ON SCHEMA apart TO reader_/,
    ],
    [
      'a missing table of another server',
      `create extension postgres_fdw schema public;
         create server away foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{port}', dbname '{database}');
         create user mapping for {reader} server away options (user '{reader}', password 'reader', password_required 'false');
         create foreign table shop.of_one (id bigint, team int, at timestamptz, v text) server away options (table_name 'gone');
         grant select on shop.of_one to {reader}`,
      relation('of_one'),
      /foreign table: relation "shop\.gone" does not exist \(SQLSTATE 42P01\)/,
    ],
    [
      'a missing right of a function',
      `create view shop.of_one as select id, team, at, pg_read_file('x') as v from shop.one; grant select on shop.of_one to {reader}`,
      relation('of_one'),
      /GRANT EXECUTE ON FUNCTION pg_read_file TO reader_/,
    ],
    [
      'a right that no export needs',
      `create function shop.no() returns text language plpgsql as $$ begin lock table shop.one in exclusive mode; return 1; end $$;
         create view shop.of_one as select id, team, at, shop.no() as v from shop.one; grant select on shop.of_one to {reader}`,
      relation('of_one'),
      /permission denied for table one, in PL\/pgSQL function shop\.no\(\) line 1 at SQL statement$/,
    ],
    ...(
      [
        ['plpgsql', '$$ begin return (select v from shop.hidden limit 1); end $$'],
        ['sql', `'select v from shop.hidden limit 1'`],
      ] as const
    ).map(([language, body]): [string, string, Partial<Model>, RegExp] => [
      `a right of the owner of a function in ${language}`,
      `drop table if exists shop.hidden; create table shop.hidden (like shop.base);
         create function shop.no() returns text language ${language} security definer as ${body}; alter function shop.no() owner to "{reader}_Lender";
         create function shop.asks() returns text language plpgsql as $$ begin return shop.no(); end $$;
         create view shop.of_one as select id, team, at, shop.asks() as v from shop.one; grant select on shop.of_one to {reader}`,
      relation('of_one'),
      /permission denied for table hidden, in .*no.*\. GRANT SELECT ON shop\.hidden TO "reader_\w+_Lender"/,
    ]),
    [
      'a value that is too large',
      `create view shop.of_one as select id, team, at, repeat('x', 1100000000) as v from shop.one; grant select on shop.of_one to {reader}`,
      relation('of_one'),
      /requested length too large/,
    ],
    [
      'a view without data',
      'create materialized view shop.of_one as select * from shop.one with no data; grant select on shop.of_one to {reader}',
      relation('of_one'),
      /"of_one" has not been populated/,
    ],
    [
      'a tenant column of another type',
      'alter table shop.one add owner uuid',
      { tenantColumn: 'owner' },
      /owner is uuid, so the tenant_key of a project must be a UUID\. These are not: "1"/,
    ],
  ])(
    'that is %s is found by run, check and preview, in the same words',
    async (_, sql, changes, words) => {
      const { port, pathname } = new URL(server.url);
      const filled = sql
        .replaceAll('{reader}', shop.reader)
        .replaceAll('{port}', port)
        .replaceAll('{database}', pathname.slice(1));
      await shop.run(`drop extension if exists postgres_fdw cascade; drop table if exists shop.one cascade; drop function if exists shop.no(); drop function if exists shop.asks();
        create table shop.one (like shop.base including all); insert into shop.one select * from shop.base;
        grant select on shop.one to ${shop.reader}; ${filled}`);
      const model = { ...relation('one'), ...changes };
      const error = await failing(model);
      expect(error?.detail).toMatch(words);
      const said = error?.detail ?? '';
      const seen = { snapshot: '1:1:', digest: null, count: 3 };
      const ofLookBack = await shop
        .source(model)
        .lookAgain(caseRequest(), seen, null, never)
        .then(
          () => said,
          ({ detail }) => detail,
        );
      expect(ofLookBack).toBe(said);
      const checked = await shop.check(model);
      // The check names all that is missing at once, so it has words of its own for the relation.
      const grant = said.slice(said.indexOf('GRANT '));
      expect(checked).toContainEqual(expect.stringContaining(grant));
      await expect(shop.preview(model)).rejects.toMatchObject({ detail: said });
    },
  );
});

describe('a database in another encoding', () => {
  let other: SourceCase;
  let otherServer: SourceServer;
  const name = `encoded_${process.pid}`;

  beforeAll(async () => {
    await shop.run(`create database ${name} template template0 encoding 'WIN1252' locale 'C'`);
    const url = new URL(server.url);
    url.pathname = `/${name}`;
    otherServer = { url: url.href, stop: async () => {} };
    other = await openSourceCase(otherServer);
  });

  afterAll(async () => {
    await other?.close();
    await shop.run(`drop database ${name} with (force)`);
  });

  test('is exported as UTF-8', async () => {
    await other.run(`update shop.base set v = 'größe €' where id = 1`);
    expect((await other.read())[0]).toEqual({ id: 1, v: 'größe €' });
  });

  test('names the byte that UTF-8 does not have, and blames no query', async () => {
    await other.run(`set client_encoding = 'WIN1252'`);
    const odd = `update shop.base set v = convert_from('\\x41811a', 'WIN1252') where id = 1`;
    await withClient(otherServer.url, (client) => client.query(odd));
    await other.run('reset client_encoding');
    const refused = {
      code: 'source.unsupported',
      detail: expect.stringMatching(/0x81 .*WIN1252.* no equivalent in encoding "UTF8"/),
    };
    await expect(other.read()).rejects.toMatchObject(refused);
    await expect(other.read({}, { dslQuery: 'SELECT v FROM rows' })).rejects.toMatchObject(refused);
  });
});
