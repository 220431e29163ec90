import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { SecretBox } from '../../../foundation/security/secret-box.ts';
import type { Database } from '../../../state/store/database/database.ts';
import {
  forgetOtherEncryptionKeys,
  listSealedSecrets,
  registerEncryptionKeys,
  replaceSealedSecrets,
  type SealedSecrets,
} from '../../../state/store/tenants/sealed-secrets.ts';

export interface RotatedEncryption {
  /** The key that encrypts every secret now, except the skipped ones. */
  readonly keyId: string;
  /** The number of secrets that had another key before. */
  readonly resealed: number;
  /** Keys that no secret uses any more: they may be removed from ENCRYPTION_KEYS. */
  readonly retiredKeyIds: readonly string[];
  /** Values that no key decrypts, each with its place and the reason. They do not change. */
  readonly skipped: readonly string[];
}

/**
 * Encrypts every secret again with the first key. A value that cannot be decrypted is skipped; then no
 * key is retired. Every process must have the first key before: a process that still encrypts with
 * another key could write a secret that no process can decrypt later.
 *
 * @throws Error if a key is missing that a process may have used
 */
export function rotateEncryption(db: Database, secrets: SecretBox): Promise<RotatedEncryption> {
  const [keyId = ''] = secrets.keyIds;
  return db.transaction(async (tx) => {
    await registerEncryptionKeys(tx, secrets.keyIds);
    let resealed = 0;
    let skipped: string[];
    let changed: boolean;
    do {
      changed = false;
      skipped = [];
      for (const sealed of await listSealedSecrets(tx)) {
        const box = reseal(secrets, sealed);
        if (box instanceof SluiceError) {
          const { at, identity } = sealed;
          skipped.push(`${at.table}.${at.column} of ${identity}: ${box.detail ?? box.code}`);
        } else if (box === null) continue;
        else if (await replaceSealedSecrets(tx, sealed, box)) resealed += 1;
        // A request changed the value meanwhile: the next pass reads it again.
        else changed = true;
      }
    } while (changed);
    const retiredKeyIds = skipped.length === 0 ? await forgetOtherEncryptionKeys(tx, keyId) : [];
    return { keyId, resealed, retiredKeyIds, skipped };
  });
}

/** Seals the same secrets under the first key; null if they are under it already. */
function reseal(secrets: SecretBox, { box, identity }: SealedSecrets): Buffer | SluiceError | null {
  try {
    const opened = secrets.open(box, identity);
    return secrets.keyIdOf(box) === secrets.keyIds[0] ? null : secrets.seal(opened, identity);
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
}
