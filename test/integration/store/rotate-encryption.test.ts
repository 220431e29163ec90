import { randomBytes, randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSecretBox } from '../../../src/foundation/security/secret-box.ts';
import { registerEncryptionKeys } from '../../../src/state/store/tenants/sealed-secrets.ts';
import { rotateEncryption } from '../../../src/service/use-cases/installation/rotate-encryption.ts';
import { ensureSigningKey } from '../../../src/service/use-cases/installation/signing.ts';
import { eraseIntervals, openErased } from '../../../src/service/use-cases/runs/erase-intervals.ts';
import { createTransformationConfig } from '../../../src/service/use-cases/transformations/steps.ts';
import { createWebhook, senderTo } from '../../support/notified.ts';
import { startSluice } from '../../support/processes.ts';
import { hourMs, openRunSide } from '../../support/run-side.ts';
import { useStage } from '../../support/use-stage.ts';

const old = { id: 'old', key: randomBytes(32) };
const next = { id: 'next', key: randomBytes(32) };
const secret = { aws_secret_access_key: 'canary' };

/** A bytea column of the schema, by what its comment says. */
interface BytesColumn {
  readonly table: string;
  readonly column: string;
  readonly comment: string | null;
}
let columns: readonly BytesColumn[];

const side = useStage(openRunSide);
beforeAll(async () => {
  columns = await side.sql<BytesColumn>`
    select c.relname as table, a.attname as column, col_description(c.oid, a.attnum) as comment
       from pg_attribute a join pg_class c on c.oid = a.attrelid
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        and a.atttypid = 'bytea'::regtype and not a.attisdropped
      order by 1, 2`;
  await fillTables();
});
beforeEach(sealWithOldKey);

const sealedColumns = () => columns.filter(({ comment }) => comment?.startsWith('sealed: '));

/** A row in each table that has a sealed column. */
async function fillTables(): Promise<void> {
  await ensureSigningKey(side.context);
  const { id } = await side.createExport();
  await side.sql`
    insert into former_destinations (export_id, version, destination_config) values (${id}, 0, '{}')`;
  const erased = { column: 'distinct_id', value: 'user 42' };
  const hour = { start: 0, end: hourMs };
  const [runId = ''] = await eraseIntervals(side.context, id, [hour], erased, randomUUID());
  // Sealed for the identity that the schema says.
  expect(openErased(side.context, await side.claim(runId))).toEqual(erased);
  await createTransformationConfig(side.context, side.actor, side.teamId, {
    ...{ plugin: 3, enabled: false, order: 1, name: null, description: null, matchAction: null },
    ...{ config: { properties: 'email', salt: 'canary' }, deleted: false },
  });
  const sender = senderTo([]);
  await createWebhook(side, sender, { url: 'https://example.com/' });
  const [webhook] = await valuesOf({
    table: 'notification_targets',
    column: 'secrets',
    comment: 'sealed: notification-target:{id}',
  });
  const opened = side.context.secrets.open(
    webhook?.box ?? Buffer.alloc(0),
    webhook?.identity ?? '',
  );
  expect(opened.url).toBe('https://example.com/');
  // It was sealed for the identity that the schema says.
  const [sealed] = await valuesOf({
    table: 'pipeline_transformation_configs',
    column: 'config_secrets',
    comment: 'sealed: transformation-config:{id}',
  });
  expect(side.context.secrets.open(sealed?.box ?? Buffer.alloc(0), sealed?.identity ?? '')).toEqual(
    { salt: 'canary' },
  );
}

interface SealedValue {
  readonly ctid: string;
  readonly identity: string;
  readonly box: Buffer | null;
}

async function valuesOf({ table, column, comment }: BytesColumn): Promise<SealedValue[]> {
  const rows = await side.db.query<{ ctid: string; box: Buffer | null; row: object }>(
    `select ctid::text, ${column} as box, to_jsonb(t) as row from ${table} t`,
  );
  const template = (comment ?? '').replace('sealed: ', '');
  return rows.map(({ ctid, box, row }) => ({
    ctid,
    box,
    identity: template.replace(/\{(\w+)\}/g, (_, name: string) =>
      String((row as Record<string, unknown>)[name]),
    ),
  }));
}

/** Fills each sealed column of each row by the holder of the old key. */
async function sealWithOldKey(): Promise<void> {
  const box = createSecretBox([old, next]);
  await side.sql`update installation set encryption_keys = '{}'`;
  await registerEncryptionKeys(side.db, box.keyIds);
  for (const at of sealedColumns()) {
    const values = await valuesOf(at);
    expect(values.length, `this test has no row in ${at.table}`).toBeGreaterThan(0);
    for (const { ctid, identity } of values) await store(at, ctid, box.seal(secret, identity));
  }
}

async function store({ table, column }: BytesColumn, ctid: string, box: Buffer): Promise<void> {
  await side.db.query(`update ${table} set ${column} = $2 where ctid = $1::tid`, [ctid, box]);
}

async function boxes(): Promise<SealedValue[]> {
  return (await Promise.all(sealedColumns().map(valuesOf))).flat();
}

/** Breaks the value of one column so that no key opens it. @returns its place */
async function damage(at: BytesColumn | undefined, broken: (box: Buffer) => Buffer) {
  if (!at) throw new Error('there is no such column');
  const [value] = await valuesOf(at);
  if (!value?.box) throw new Error(`${at.table} has no value`);
  await store(at, value.ctid, broken(value.box));
  return `${at.table}.${at.column} of ${value.identity}`;
}

it('the schema says of every bytea column whether it is sealed', () => {
  const unsaid = columns.filter(({ comment }) => !/^(sealed|open): \S/.test(comment ?? ''));
  expect(unsaid).toEqual([]);
});

describe('rotating encryption', () => {
  it('leaves nothing that needs the old key, and says that it may go', async () => {
    const rotated = await rotateEncryption(side.db, createSecretBox([next, old]));
    const all = await boxes();
    expect(all.length).toBeGreaterThanOrEqual(3);
    expect(rotated).toEqual({
      keyId: 'next',
      resealed: all.length,
      retiredKeyIds: ['old'],
      skipped: [],
    });
    const withoutOld = createSecretBox([next]);
    for (const { box, identity } of all) {
      expect(withoutOld.open(box ?? Buffer.alloc(0), identity)).toEqual(secret);
    }
    await expect(registerEncryptionKeys(side.db, withoutOld.keyIds)).resolves.toBeUndefined();
    expect(await rotateEncryption(side.db, withoutOld)).toEqual({
      keyId: 'next',
      resealed: 0,
      retiredKeyIds: [],
      skipped: [],
    });
  });

  it.each([
    ['is cut short', (box: Buffer) => box.subarray(0, 20)],
    [
      'has a wrong byte',
      (box: Buffer) => Buffer.concat([box.subarray(0, -1), Buffer.from([(box.at(-1) ?? 0) ^ 1])]),
    ],
    [
      'names a key that does not exist',
      (box: Buffer) => Buffer.concat([box.subarray(0, 2), Buffer.from('x'), box.subarray(3)]),
    ],
  ])('skips and names a value that %s, and keeps the old key', async (_, broken) => {
    const place = await damage(sealedColumns()[0], broken);
    const rotated = await rotateEncryption(side.db, createSecretBox([next, old]));
    expect(rotated.skipped).toEqual([expect.stringContaining(place)]);
    expect(rotated.retiredKeyIds).toEqual([]);
    expect(rotated.resealed).toBe((await boxes()).length - 1);
    await expect(registerEncryptionKeys(side.db, ['next'])).rejects.toThrow('old');
  });

  it('changes nothing if a key is missing that something is sealed with', async () => {
    const before = await boxes();
    await expect(rotateEncryption(side.db, createSecretBox([next]))).rejects.toThrow('old');
    expect(await boxes()).toEqual(before);
    await expect(registerEncryptionKeys(side.db, ['next'])).rejects.toThrow('old');
  });
});

it('sluice keys rotate-encryption exits 1 and names a value that it could not open', async () => {
  const place = await damage(sealedColumns().at(-1), (box) => box.subarray(0, 20));
  const keys = [next, old].map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',');
  const given = ['keys', 'rotate-encryption', '--json'];
  const env = { DATABASE_URL: side.url, ENCRYPTION_KEYS: keys };
  const child = startSluice('clients/cli/sluice.js', given, { env });
  const { code } = await child.waitForExit();
  const output = child.output();
  expect(code, output).toBe(1);
  expect(output).toContain('"retired_key_ids":[]');
  expect(output).toContain(`${place}: the stored secret is damaged`);
  expect(output).not.toContain('canary');
});
