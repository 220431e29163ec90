import { SluiceError } from '../../domain/errors.ts';
import type { SecretBox } from '../../security/secret-box.ts';
import type { Database } from '../../store/database.ts';
import {
  forgetOtherEncryptionKeys,
  listSealedSecrets,
  registerEncryptionKeys,
  replaceSealedSecrets,
  type SealedSecrets,
} from '../../store/sealed-secrets.ts';

export interface RotatedEncryption {
  /** The key that everything is sealed with now, but for what was skipped. */
  readonly keyId: string;
  /** Secrets that were sealed with another one. */
  readonly resealed: number;
  /** Keys that nothing is sealed with any more: they may be taken out of ENCRYPTION_KEYS. */
  readonly retiredKeyIds: readonly string[];
  /** Values that no key opens, each with its place and the reason. They stay as they are. */
  readonly skipped: readonly string[];
}

/**
 * Seals every secret anew with the first key. A value that cannot be opened is skipped; then no key
 * is retired. Every process must have the first key before: one that still seals with another would
 * leave a secret behind that no process can open.
 *
 * @throws Error if a key is missing that a process may have sealed with
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
        if (box instanceof SluiceError) skipped.push(describe(sealed, box));
        else if (box === null) continue;
        else if (await replaceSealedSecrets(tx, sealed, box)) resealed += 1;
        // A request was faster: what it wrote is looked at again.
        else changed = true;
      }
    } while (changed);
    const retiredKeyIds = skipped.length === 0 ? await forgetOtherEncryptionKeys(tx, keyId) : [];
    return { keyId, resealed, retiredKeyIds, skipped };
  });
}

/** The same secrets under the first key; null if they are under it already. */
function reseal(secrets: SecretBox, { box, identity }: SealedSecrets): Buffer | SluiceError | null {
  try {
    const opened = secrets.open(box, identity);
    return secrets.keyIdOf(box) === secrets.keyIds[0] ? null : secrets.seal(opened, identity);
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
}

function describe({ at, identity }: SealedSecrets, error: SluiceError): string {
  return `${at.table}.${at.column} of ${identity}: ${error.detail ?? error.code}`;
}
