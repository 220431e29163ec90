import type { SecretBox } from '../security/secret-box.ts';
import type { Database } from '../store/database.ts';
import { forgetOtherEncryptionKeys, registerEncryptionKeys } from '../store/encryption-keys.ts';
import { listSealedSecrets, replaceSealedSecrets } from '../store/sealed-secrets.ts';

export interface RotatedEncryption {
  /** The key that everything is sealed with now. */
  readonly keyId: string;
  /** Secrets that were sealed with another one. */
  readonly resealed: number;
  /** Keys that nothing is sealed with any more: they may be taken out of ENCRYPTION_KEYS. */
  readonly retiredKeyIds: readonly string[];
}

/**
 * Seals every secret anew with the first key, all or none. Every process must have that key, first,
 * before: one that still seals with another would leave a secret behind that nobody can open.
 *
 * @throws SluiceError `secrets.undecryptable` where a key is missing that something is sealed with
 */
export function rotateEncryption(db: Database, secrets: SecretBox): Promise<RotatedEncryption> {
  const [keyId = ''] = secrets.keyIds;
  return db.transaction(async (tx) => {
    await registerEncryptionKeys(tx, secrets.keyIds);
    let resealed = 0;
    let changed: boolean;
    do {
      changed = false;
      for (const sealed of await listSealedSecrets(tx)) {
        if (secrets.keyIdOf(sealed.box) === keyId) continue;
        const box = secrets.seal(secrets.open(sealed.box, sealed.exportId), sealed.exportId);
        if (await replaceSealedSecrets(tx, sealed, box)) resealed += 1;
        // A request was faster: what it wrote is looked at again.
        else changed = true;
      }
    } while (changed);
    return { keyId, resealed, retiredKeyIds: await forgetOtherEncryptionKeys(tx, keyId) };
  });
}
