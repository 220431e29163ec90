import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSecretBox } from '../../../src/security/secret-box.ts';
import { registerEncryptionKeys } from '../../../src/store/encryption-keys.ts';
import { rotateEncryption } from '../../../src/use-cases/rotate-encryption.ts';
import { startSluice } from '../../support/processes.ts';
import { createExportOfThePast, openRunSide, type RunSide } from '../../support/run-side.ts';

const old = { id: 'old', key: randomBytes(32) };
const next = { id: 'next', key: randomBytes(32) };
const secret = { aws_secret_access_key: 'canary' };

let side: RunSide;
let exportId: string;

beforeAll(async () => {
  side = await openRunSide();
  ({ id: exportId } = await createExportOfThePast(side));
});
afterAll(() => side?.stop());

/** The export's secrets, and those of a place it has left, sealed by the old key's holder. */
async function sealWithOldKey(): Promise<void> {
  const box = createSecretBox([old, next]);
  await side.db.query('delete from encryption_keys');
  await registerEncryptionKeys(side.db, box.keyIds);
  await side.db.query('update batch_exports set destination_secrets = $2 where id = $1', [
    exportId,
    box.seal(secret, exportId),
  ]);
  await side.db.query(
    `insert into former_destinations (export_id, version, destination_config, destination_secrets)
     values ($1, 0, '{}', $2)
     on conflict (export_id, version) do update set destination_secrets = excluded.destination_secrets`,
    [exportId, box.seal(secret, exportId)],
  );
}

async function boxes(): Promise<readonly Buffer[]> {
  const rows = await side.db.query<{ box: Buffer }>(
    `select destination_secrets as box from batch_exports where id = $1
     union all select destination_secrets from former_destinations where export_id = $1`,
    [exportId],
  );
  return rows.map((row) => row.box);
}

describe('rotating encryption', () => {
  it('leaves nothing that needs the old key, and says that it may go', async () => {
    await sealWithOldKey();
    const rotated = await rotateEncryption(side.db, createSecretBox([next, old]));
    expect(rotated).toEqual({ keyId: 'next', resealed: 2, retiredKeyIds: ['old'] });
    const withoutOld = createSecretBox([next]);
    for (const box of await boxes()) expect(withoutOld.open(box, exportId)).toEqual(secret);
    await expect(registerEncryptionKeys(side.db, withoutOld.keyIds)).resolves.toBeUndefined();
    expect(await rotateEncryption(side.db, withoutOld)).toEqual({
      keyId: 'next',
      resealed: 0,
      retiredKeyIds: [],
    });
  });

  it('changes nothing where a key is missing that something is sealed with', async () => {
    await sealWithOldKey();
    const before = await boxes();
    await expect(rotateEncryption(side.db, createSecretBox([next]))).rejects.toThrow('old');
    expect(await boxes()).toEqual(before);
    await expect(registerEncryptionKeys(side.db, ['next'])).rejects.toThrow('old');
  });

  it('is a verb of the command line', async () => {
    await sealWithOldKey();
    const keys = [next, old].map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',');
    const child = startSluice('cli/sluice.js', ['keys', 'rotate-encryption', '--json'], {
      env: { DATABASE_URL: side.url, ENCRYPTION_KEYS: keys },
    });
    const { code } = await child.waitForExit();
    expect(code, child.output()).toBe(0);
    expect(child.output()).toContain('"resealed":2');
    expect(child.output()).not.toContain('canary');
  });
});
