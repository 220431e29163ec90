import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { canonicalBytes } from '../../../src/foundation/domain/canonical-json.ts';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import {
  readPublicKeys,
  rotateSigning,
} from '../../../src/service/use-cases/installation/signing.ts';
import {
  startBackfill,
  wholeRange,
} from '../../../src/service/use-cases/backfills/start-backfill.ts';
import { retryRun } from '../../../src/service/use-cases/runs/cancel-work.ts';
import { lockExport } from '../../../src/state/store/exports/exports.ts';
import { findRemovalRequest } from '../../../src/state/store/intervals/statement-changes.ts';
import { findRun, insertRuns } from '../../../src/state/store/runs/runs.ts';
import { findHead } from '../../../src/state/store/intervals/statements.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { checkers, runChecker } from '../../support/run-checker.ts';
import { hourMs, listRuns } from '../../support/run-side.ts';
import { insertEvents } from '../../support/source-tables.ts';
import { atNight, firstByDay } from '../../support/nightly.ts';
import { sha256, useStatementBench } from '../../support/statement-bench.ts';

const receipts = useStatementBench();
const { backfill, exportOfHours, folder, isSigned, make, put } = receipts;
const { readStatement, root, runAll, side, stated, sweep } = receipts;

describe('statements of an export', () => {
  it.each(firstByDay(1, checkers))('pass the checker of %s', async (...checker) => {
    const id = await exportOfHours(3);
    await insertEvents(receipts.bench.database.pool, {
      team: side.teamId,
      start: toTimestamp((await readNow(side.db)) - 2 * hourMs),
      count: 500,
      everyMs: 1_000,
    });
    await runAll(id);
    await make(id);
    await backfill(id, 0);
    await runAll(id);
    const { keys } = JSON.parse(String(await readPublicKeys(side.db)));
    await rotateSigning(side.context, false);
    await put(id);
    expect((await readStatement(1)).statement.balance.closing?.rows).toBeGreaterThan(0);
    const { number, sha256: digest } = await findHead(side.db, id);
    const copy = join(root(), 'copy');
    await cp(join(root(), 'acme/events'), copy, { recursive: true });
    expect(await runChecker(checker, copy)).toContain(`${number}:${digest}`);
    // Who trusts the key before the rotation trusts what it signed.
    const trusted = ['--key', keys[0].public_key, '--head', `${number}:${digest}`];
    expect(await runChecker(checker, copy, ...trusted)).toMatch(/^0: Right/);
    await writeFile(join(copy, 'stray.jsonl'), 'stray');
    expect(await runChecker(checker, copy)).toContain('stray.jsonl');
    await receipts.bench.database.sql`delete from events where team_id = ${side.teamId}`;
  });

  it('are put with the receipts of manifests, in a chain without a gap', async () => {
    const id = await exportOfHours(3);
    await runAll(id);
    // Any writer of the place can name our key.
    const [{ key_id }] = JSON.parse(String(await readPublicKeys(side.db))).keys;
    const entry = { key_id: 'x', signed_by: key_id, signature: { toString: 1 } };
    await mkdir(folder(), { recursive: true });
    await writeFile(join(folder(), 'keys.json'), canonicalBytes({ keys: [entry] }));
    expect(await make(id)).toMatchObject({ number: 1 });
    await put(id);
    const [first, second] = [await readStatement(1), await readStatement(2)];
    expect(second.statement).toMatchObject({
      begins: null,
      previous: { number: 1, sha256: sha256(first.bytes) },
      bookings: [],
      period: { start: first.statement.period.end, end: first.statement.period.end },
    });
    expect(await findHead(side.db, id)).toMatchObject({
      number: 2,
      sha256: sha256(second.bytes),
      putNumber: 2,
    });
    for (const { bytes, statement } of [first, second]) {
      expect(bytes.equals(canonicalBytes(statement))).toBe(true);
      expect(await isSigned(statement as never)).toBe(true);
    }
    expect(await readFile(join(folder(), 'keys.json'))).toEqual(await readPublicKeys(side.db));
    const { bookings, period } = first.statement;
    expect(bookings.length).toBeGreaterThanOrEqual(3);
    expect(bookings[0]?.start).toBe(period.start);
    expect(bookings.at(-1)?.end).toBe(period.end);
    for (const { after } of bookings) {
      const { manifest } = after as unknown as { manifest: { key: string; sha256: string } };
      const bytes = await readFile(join(root(), 'acme', manifest.key));
      expect(sha256(bytes)).toBe(manifest.sha256);
      expect(await isSigned(JSON.parse(String(bytes)))).toBe(true);
    }
  });

  atNight('have an open interval until it is delivered, and book what changed', async () => {
    const id = await exportOfHours(2);
    await make(id);
    await runAll(id);
    const [run] = await side.listRuns(id);
    await make(id);
    await side.sql`
      update receipts set settled = false, pending_transactions = '{7}' where run_id = ${run?.id}`;
    await put(id);
    const kinds = async (number: number) =>
      (await readStatement(number)).statement.bookings.map(({ kind, before, after }) => [
        kind,
        before?.state ?? null,
        after.state,
      ]);
    expect(new Set((await kinds(1)).map(String))).toEqual(new Set(['open,,open']));
    expect(new Set((await kinds(2)).map(String))).toEqual(new Set(['empty,open,empty']));
    expect(await kinds(3)).toEqual([['empty', 'empty', 'empty']]);
  });

  it('book each commit between two statements, also one that was replaced', async () => {
    const id = await exportOfHours(1);
    await runAll(id);
    const [run] = await side.listRuns(id);
    const replace = async (purpose: string, rows: number, drops = false) => {
      // As a completion does.
      await side.sql`insert into stated_intervals as s (export_id, data_interval_start, data_interval_end, superseded)
         select export_id, data_interval_start, data_interval_end, array[to_jsonb(c) - 'recipe'] from receipts c
           where run_id = ${run?.id}
         on conflict (export_id, data_interval_start, data_interval_end) do update
           set superseded = s.superseded || excluded.superseded`;
      await side.sql`update receipts set rows = ${rows}, generation = generation + 1,
                made_by = made_by || jsonb_build_object('purpose', ${purpose}::text, 'drops', ${drops}::boolean, 'at',
                  api_time(clock_timestamp())) where run_id = ${run?.id}`;
    };
    await replace('supplement', 10);
    await replace('erase', 7);
    await replace('whole', 5, true);
    await replace('whole', 6);
    await put(id);
    const { bookings, balance } = (await readStatement(1)).statement;
    const own = bookings.filter(({ start }) => start === bookings[0]?.start);
    expect(own.map(({ kind, after }) => [kind, after.rows])).toEqual([
      ['empty', 0],
      ['supplement', 10],
      ['erased', 7],
      ['removed', 5],
      ['remade', 6],
    ]);
    expect(balance).toMatchObject({
      opening: { rows: 0 },
      delivered: { rows: 11 },
      erased: { rows: 3 },
      removed: { rows: 2 },
      closing: { rows: 6 },
    });
    await put(id);
    expect((await readStatement(2)).statement.bookings).toEqual([]);
  });

  atNight('say how many rows a person was shown before delivered rows were removed', async () => {
    const { context, db, teamId } = side;
    const id = await exportOfHours(2);
    await runAll(id);
    const batchExport = await db.transaction((tx) => lockExport(tx, id));
    const { actor } = side;
    const interval = { start: 0, end: hourMs };
    if (!batchExport) throw new Error('no export');
    for (const shownRows of [5, null]) {
      const request = { ...wholeRange(interval), dropsMissing: true, shownRows, actor };
      const { backfillId } = await startBackfill(context, batchExport, request);
      const [runId = ''] = await insertRuns(db, [{ exportId: id, teamId, interval, backfillId }]);
      expect(await findRemovalRequest(db, id, runId)).toEqual({
        ...{ by: 'operator', request: backfillId, shown: shownRows },
      });
      await side.sql`delete from outbox where run_id = ${runId}`;
      await side.sql`update runs set status = 'Cancelled', finished_at = now() where id = ${runId}`;
      await side.sql`
        update backfills set status = 'Cancelled', finished_at = now() where id = ${backfillId}`;
    }
    const [failed] = await listRuns(db, id);
    const error =
      'source.rows_missing: 9 rows are delivered, 2 rows are in the new files, and 7 delivered rows are missing there.';
    await side.sql`
      update runs set status = 'Failed', latest_error = ${error}, error_code = 'source.rows_missing'
        where id = ${failed?.id}`;
    const run = await findRun(db, id, failed?.id ?? '');
    if (!run) throw new Error('no run');
    const retry = await retryRun(context, run, 'drop', actor);
    expect(await findRemovalRequest(db, id, retry)).toMatchObject({ request: retry, shown: 7 });
  });

  atNight('name intervals before the first period if a backfill delivers them', async () => {
    const id = await stated(1);
    await backfill(id, Date.parse('2025-01-01T00:00:00Z'));
    await runAll(id);
    await put(id);
    const { bookings, period } = (await readStatement(2)).statement;
    expect(bookings).toMatchObject([{ kind: 'empty', before: null }]);
    expect(bookings[0]?.start).toBe('2025-01-01T00:00:00.000000Z');
    expect(period.start).toBe(period.end);
  });

  atNight('wait in order while the place refuses them', async () => {
    const id = await exportOfHours(1);
    // A file is where the folder would be.
    await writeFile(join(root(), 'acme'), '');
    await make(id);
    await put(id);
    expect(await findHead(side.db, id)).toMatchObject({ number: 2, putNumber: 0 });
    expect((await findHead(side.db, id)).putFault).not.toBeNull();
    await rm(join(root(), 'acme'));
    await sweep();
    expect(await findHead(side.db, id)).toMatchObject({ putNumber: 2, putFault: null });
    expect(await readdir(join(folder(), 'statements'))).toEqual(['1.json', '2.json']);
  });

  atNight('name no folder of values as the place of an export without manifests', async () => {
    const id = await exportOfHours(1, receipts.usual({ partition_by: ['event'], manifest: false }));
    const start = Date.UTC(2024, 2, 1);
    const rows = { team: side.teamId, start: toTimestamp(start), count: 5, everyMs: 1_000 };
    await insertEvents(receipts.bench.database.pool, rows);
    await backfill(id, start);
    await runAll(id);
    await side.sql`
      update batch_exports set destination_config = destination_config || '{"prefix": "new"}' where id = ${id}`;
    await put(id);
    const { statement } = await readStatement(1, join(root(), 'acme/new/_sluice'));
    const delivered = statement.bookings.filter(({ kind }) => kind === 'delivered');
    expect(delivered).toEqual([
      expect.objectContaining({
        after: expect.objectContaining({ place: expect.stringMatching(/\/acme\/events\/2024$/) }),
      }),
    ]);
  });

  it.each(firstByDay(1, ['later', 'same']))(
    'begin a chain after a restore: the %s key signed',
    async (key) => {
      const id = await stated(2);
      const keep = ['statements', 'stated_intervals', 'signing_keys'];
      for (const table of keep) {
        await side.db.query(`drop table if exists kept_${table}`);
        await side.db.query(`create table kept_${table} as select * from ${table}`);
      }
      const [kept] = await side.sql<Record<string, unknown>>`
      select statement_number, statement_sha256, statements_began_at, statement_place, statement_put
        from batch_exports where id = ${id}`;
      if (key === 'later') await rotateSigning(side.context, false);
      await make(id);
      await put(id);
      const before = await readStatement(3);
      for (const table of keep) {
        await side.db.query(`delete from ${table}`);
        await side.db.query(`insert into ${table} select * from kept_${table}`);
      }
      await side.db.query(
        `update batch_exports set (statement_number, statement_sha256, statements_began_at, statement_place, statement_put) = ($2, $3, $4, $5, $6)
        where id = $1`,
        [id, ...Object.values(kept ?? {})],
      );
      // It makes a statement of its own at the number of another.
      await put(id);
      if (key === 'later') {
        // The private part of the later key is lost, and that of the earlier one must sign nothing more.
        await expect(make(id)).rejects.toMatchObject({ code: 'secrets.signing_key_lost' });
        await rotateSigning(side.context, true);
      }
      await sweep();
      await sweep();
      await sweep();
      const { statement } = await readStatement(4);
      expect(statement).toMatchObject({
        previous: { number: 3, sha256: sha256(before.bytes) },
        begins: 'restored',
      });
      expect((await readStatement(3)).bytes).toEqual(before.bytes);
      expect(statement.bookings).toEqual((await readStatement(1)).statement.bookings);
      await put(id);
      expect((await readStatement(5)).statement.previous).toMatchObject({ number: 4 });
      for (const checker of checkers) {
        expect(await runChecker(checker, join(root(), 'acme/events'))).toMatch(/^0: Right/);
      }
    },
  );

  it('do not go among those of another export', async () => {
    const [one, other] = [await exportOfHours(1), await exportOfHours(1)];
    await put(one);
    await put(other);
    expect((await findHead(side.db, other)).putFault).toContain(one);
    expect(await findHead(side.db, one)).toMatchObject({ putNumber: 1, putFault: null });
  });

  it('are signed by the newest key, and are not made if it is lost', async () => {
    const id = await exportOfHours(1);
    await make(id);
    const next = await rotateSigning(side.context, false);
    await put(id);
    const { statement } = await readStatement(2);
    expect(statement).toMatchObject({ receipt: { key_id: next.key_id } });
    expect(await isSigned(statement as never)).toBe(true);
    await expect(rotateSigning(side.context, true)).rejects.toThrow('not lost');
    await side.sql`update signing_keys set private_key = '\\x00' where private_key is not null`;
    await expect(make(id)).rejects.toMatchObject({ code: 'secrets.signing_key_lost' });
    await expect(rotateSigning(side.context, false)).rejects.toThrow('--lost');
    const last = await rotateSigning(side.context, true);
    expect(last.signed_by).toBe(last.key_id);
    await put(id);
    expect((await readStatement(3)).statement).toMatchObject({ receipt: { key_id: last.key_id } });
  });
});
