/** What a real PostgreSQL does: each case on each server that this machine has. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Model } from '../../src/domain/model.ts';
import {
  caseRequest,
  openSourceCase,
  plainColumn,
  type SourceCase,
  type SourceServer,
  sourceServers,
} from '../support/source-cases.ts';

const relation = (name: string): Partial<Model> => ({ relation: { schema: 'shop', name } });

describe.each(sourceServers)('%s', (_, start) => {
  let server: SourceServer;
  let shop: SourceCase;

  beforeAll(async () => {
    server = await start();
    shop = await openSourceCase(server);
  });

  afterAll(async () => {
    await shop?.close();
    await server?.stop();
  });

  describe('functions behind a view', () => {
    test('find operators and tables by the path of the role', async () => {
      await shop.run(`create extension if not exists citext`);
      await shop.create(`
        create function public.same(citext, citext) returns boolean language plpgsql stable as
          $$ begin return $1 = $2; end $$;
        create function public.same_too(citext, citext) returns boolean language sql stable as 'select $1 = $2';
        create table public.accounts (id int, plan text); insert into public.accounts values (1, 'pro');
        grant select on public.accounts to ${shop.reader};
        create function public.plan_of(int) returns text language plpgsql stable as
          $$ begin return (select plan from accounts where id = $1); end $$;
        create function public.plan_too(int) returns text language sql stable as
          'select plan from accounts where id = $1';
        create view shop.compared as select id, team, at, concat(
          public.same('A', 'a'), public.same_too('A', 'a'), public.plan_of(1), public.plan_too(1)) as v from shop.base`);
      expect((await shop.read(relation('compared')))[0]).toEqual({ id: 1, v: 'ttpropro' });
      await shop.run(`create schema other; grant usage on schema other to ${shop.reader};
        create table other.accounts (id int, plan text); insert into other.accounts values (1, 'other');
        grant select on other.accounts to ${shop.reader};
        alter role ${shop.reader} set search_path = other, public`);
      expect((await shop.read(relation('compared')))[0]).toEqual({ id: 1, v: 'ttotherother' });
      await shop.run(`alter role ${shop.reader} reset search_path`);
    });

    test('and the statements of Sluice keep their meaning', async () => {
      await shop.run(`create schema evil; grant usage on schema evil to ${shop.reader};
        create function evil.boom() returns boolean language plpgsql as $$ begin raise 'called'; end $$;
        create function evil.no(text, text) returns boolean language sql as 'select evil.boom()';
        create function evil.no(bigint, bigint) returns boolean language sql as 'select evil.boom()';
        create function evil.no(oid, integer) returns boolean language sql as 'select evil.boom()';
        create function evil.no(oid, regclass) returns boolean language sql as 'select evil.boom()';
        create function evil.join(text, text) returns text language sql as 'select evil.boom()::text';
        create function evil.join(text, bigint) returns text language sql as 'select evil.boom()::text';
        create function evil.upper(text) returns text language sql as 'select evil.boom()::text';
        create operator evil.= (leftarg = text, rightarg = text, function = evil.no);
        create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.no);
        create operator evil.= (leftarg = oid, rightarg = regclass, function = evil.no);
        create operator evil.>= (leftarg = oid, rightarg = integer, function = evil.no);
        create operator evil.|| (leftarg = text, rightarg = text, function = evil.join);
        create operator evil.|| (leftarg = text, rightarg = bigint, function = evil.join);
        alter role ${shop.reader} set search_path = evil, pg_catalog`);
      const dslQuery = `SELECT id, upper(v) || id AS v FROM rows WHERE v = 'v7' AND id IN (7, 8)`;
      expect(await shop.read({}, { dslQuery })).toEqual([{ id: 7, v: 'V77' }]);
      expect(await shop.check()).toEqual([]);
      await shop.run(`alter role ${shop.reader} reset search_path`);
    });

    test('have their schema in the names of types', async () => {
      await shop.create(`
        create type public.mood as enum ('good'); create type shop.mood as enum ('bad');
        create table shop.moods (id bigint primary key, team int, at timestamptz, a public.mood, b shop.mood, c public.mood[])`);
      await shop.run(`alter role ${shop.reader} set search_path = shop, public`);
      const columns = [
        plainColumn('a', 'public.mood'),
        plainColumn('b', 'shop.mood'),
        plainColumn('c', 'public.mood[]'),
      ];
      const source = shop.source({ ...relation('moods'), columns });
      const described = await source.describe(caseRequest(), new AbortController().signal);
      expect(described.map(({ sourceType }) => sourceType)).toEqual(
        columns.map(({ sourceType }) => sourceType),
      );
      await shop.run(`alter role ${shop.reader} reset search_path`);
    });
  });
});
