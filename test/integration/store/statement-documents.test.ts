import { randomUUID } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { canonicalBytes } from '../../../src/foundation/domain/canonical-json.ts';
import { toTimestamp } from '../../../src/foundation/domain/time.ts';
import { documentPage } from '../../../src/service/api/statements/routes.ts';
import { eraseIntervals } from '../../../src/service/use-cases/runs/erase-intervals.ts';
import {
  makeCertificate,
  makeDeliveryRecord,
  type SignedDocument,
} from '../../../src/service/use-cases/statements/make-documents.ts';
import { lockExport } from '../../../src/state/store/exports/exports.ts';
import { readNow } from '../../../src/state/store/intervals/ticks.ts';
import { checkers, runChecker } from '../../support/run-checker.ts';
import { hourMs } from '../../support/run-side.ts';
import { insertEvents } from '../../support/source-tables.ts';
import { atNight, firstByDay } from '../../support/nightly.ts';
import { useStatementBench } from '../../support/statement-bench.ts';

const bench = useStatementBench();
const { exportOfHours, make, root, runAll, side, sweep } = bench;
const place = () => join(root(), 'acme/events');

/** The answers of both checkers to the place with a document. */
async function check(document: SignedDocument | Buffer): Promise<readonly string[]> {
  const file = join(root(), 'document.json');
  await writeFile(file, Buffer.isBuffer(document) ? document : canonicalBytes(document));
  return Promise.all(checkers.map((checker) => runChecker(checker, place(), '--document', file)));
}

/** Each change of a member, or of one inside it, is found by both. */
async function expectEachChangeFound(document: SignedDocument): Promise<void> {
  const text = String(canonicalBytes(document));
  const changes = firstByDay(1, [
    ['"rows":', '"rows":1'],
    ['"sha256":"', '"sha256":"0'],
    ['"era":"', '"era":"0'],
    ['"type":"sluice.', '"type":"other.'],
  ]);
  for (const [is, becomes] of changes) {
    expect(text).toContain(is);
    for (const answer of await check(Buffer.from(text.replace(is, becomes)))) {
      expect(answer, is).toMatch(/^1: WRONG/);
    }
  }
}

let id: string;

beforeEach(async () => {
  id = await exportOfHours(3);
  await insertEvents(bench.bench.database.pool, {
    team: side.teamId,
    start: toTimestamp((await readNow(side.db)) - 2 * hourMs),
    count: 300,
    everyMs: 1_000,
  });
  await runAll(id);
  await make(id);
});

it('the certificate of an erasure has the files with their digests, and both checkers check it', async () => {
  const { db, context } = side;
  const request = randomUUID();
  const batchExport = await db.transaction((tx) => lockExport(tx, id));
  if (!batchExport) throw new Error('no export');
  const certify = (of = request) =>
    makeCertificate(context, bench.options().statements, batchExport, of);
  await expect(certify()).rejects.toThrow();
  const intervals = await side.sql<{ start: number; end: number }>`
      select extract(epoch from data_interval_start)::bigint * 1000 as start,
             extract(epoch from data_interval_end)::bigint * 1000 as end
         from receipts where export_id = ${id}`;
  const value = 'user 3';
  await eraseIntervals(context, id, intervals, { column: 'distinct_id', value }, request);
  await runAll(id);
  await expect(certify()).rejects.toThrow();
  await bench.put(id);
  const certificate = await certify();
  const { rows, asked_at: asked, erased_at: erased } = certificate;
  expect(rows).toBeGreaterThan(0);
  expect(String(asked) <= String(erased)).toBe(true);
  expect(certificate).toMatchObject({ request, batch_export_id: id, left: { former_places: [] } });
  const parts = certificate.intervals as readonly {
    readonly rows: number;
    readonly files: readonly { readonly before: string; readonly after: string | null }[];
  }[];
  expect(parts.flatMap(({ files }) => files).length).toBeGreaterThan(0);
  expect(parts.reduce((sum, part) => sum + part.rows, 0)).toBe(rows);
  expect(String(canonicalBytes(certificate))).not.toContain(value);
  for (const answer of await check(certificate)) expect(answer).toMatch(/^0: Right/);
  await expectEachChangeFound(certificate);
  const html = documentPage(certificate);
  expect(html).toContain('Certificate of erasure');
  expect(html).toContain(certificate.receipt.signature);
  expect(html).toContain(String(parts[0]?.files[0]?.before));
  await expect(certify(randomUUID())).rejects.toThrow();
});

describe('the delivery record', () => {
  atNight('sums what the newest statements say of a month, and is checked', async () => {
    const { context, teamId } = side;
    await sweep();
    const [sums] = await side.sql<{ rows: number; intervals: number; month: string }>`
      select sum(rows)::bigint as rows, count(*) as intervals,
             to_char(data_interval_start at time zone 'UTC', 'YYYY-MM') as month
         from receipts where export_id = ${id} group by month order by month limit 1`;
    const { organizationId } = side.tenant;
    const month = sums?.month ?? '';
    const record = await makeDeliveryRecord(context, { organizationId, teamId }, month);
    const [one] = record.exports as readonly Record<string, unknown>[];
    const states = one?.intervals as Record<string, number>;
    expect(one).toMatchObject({ rows: sums?.rows, batch_export_id: id, missed_deadlines: null });
    expect((states.delivered ?? 0) + (states.empty ?? 0)).toBe(sums?.intervals);
    expect(record).toMatchObject({ month, totals: { rows: sums?.rows }, more: 0 });
    const printed = Buffer.from(`${canonicalBytes(record)}\n`);
    for (const answer of await check(printed)) expect(answer).toMatch(/^0: Right/);
    await expectEachChangeFound(record);
    const empty = await makeDeliveryRecord(context, { organizationId, teamId: null }, '2001-02');
    expect(empty).toMatchObject({ totals: { rows: 0, bytes: 0, files: 0 } });
    expect(await readdir(place())).toContain('_sluice');
  });

  it('shows names of customers as text, not as markup', () => {
    const receipt = { key_id: 'k', algorithm: 'Ed25519', signature: 's' } as const;
    const html = documentPage({
      type: 'sluice.delivery.v1',
      exports: [{ name: '<script>alert("x")</script>' }],
      receipt,
    });
    expect(html).not.toContain('<script>');
    expect(html).toContain('&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;');
  });
});
