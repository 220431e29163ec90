import { canonicalBytes } from '../../../foundation/domain/canonical-json.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { PublicKeyEntry, Sign } from '../../../foundation/domain/signature.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import {
  isSignedBy,
  makeSigningKey,
  type SigningKey,
  signWith,
} from '../../../foundation/security/signing-keys.ts';
import type { Sql, Transactor } from '../../../state/store/database/database.ts';
import {
  addSigningKey,
  findSigningKey,
  listSigningKeys,
  lockSigningKeys,
} from '../../../state/store/database/signing-keys.ts';
import { readNow } from '../../../state/store/intervals/ticks.ts';
import type { Context } from '../context.ts';

type Keeper = Pick<Context, 'db' | 'secrets'>;

/** The identity that a private key is sealed for. Also in the comment on `signing_keys.private_key`. */
const identityOf = (keyId: string): string => `signing-key:${keyId}`;

/** The time that a process signs with a key without a look for a newer one. */
const freshMs = 30_000;

/** By the database, so that a run sends no statement for its signature. */
const signers = new WeakMap<Transactor, { readAt: number; signer: Promise<Sign> }>();

/**
 * The newest key of the installation, as this process knew it at most half a minute ago.
 *
 * @throws SluiceError `secrets.signing_key_lost` if its private part cannot be decrypted
 */
export function readSigner(context: Keeper): Promise<Sign> {
  const last = signers.get(context.db);
  if (last && performance.now() - last.readAt < freshMs) return last.signer;
  const signer = ensureSigningKey(context).then(() => openSigner(context.db, context.secrets));
  signers.set(context.db, { readAt: performance.now(), signer });
  // A failure is not remembered.
  signer.catch(() => signers.delete(context.db));
  return signer;
}

/** Reads the newest key now. @throws SluiceError `secrets.signing_key_lost` */
export async function openSigner(sql: Sql, secrets: Keeper['secrets']): Promise<Sign> {
  return signWith(await openKey(sql, secrets));
}

async function openKey(sql: Sql, secrets: Keeper['secrets']): Promise<SigningKey> {
  const stored = await findSigningKey(sql);
  if (!stored) throw new SluiceError('secrets.signing_key_lost', 'there is none');
  const { keyId, sealed } = stored;
  try {
    if (sealed === null) throw new SluiceError('secrets.undecryptable', 'it is not stored');
    return { keyId, seed: String(secrets.open(sealed, identityOf(keyId)).seed) };
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw new SluiceError('secrets.signing_key_lost', `key ${keyId}: ${error.detail}`, error);
  }
}

export async function ensureSigningKey({ db, secrets }: Keeper): Promise<void> {
  if ((await findSigningKey(db)) !== null) return;
  await db.transaction(async (tx) => {
    await lockSigningKeys(tx);
    if ((await findSigningKey(tx)) === null) await makeKey(tx, secrets, null);
  });
}

async function makeKey(
  tx: Sql,
  secrets: Keeper['secrets'],
  before: SigningKey | null,
): Promise<PublicKeyEntry> {
  const { entry, key } = makeSigningKey(before, toTimestamp(await readNow(tx)));
  await addSigningKey(tx, entry, secrets.seal({ seed: key.seed }, identityOf(key.keyId)));
  return entry;
}

export class NotRotated extends Error {
  override readonly name = 'NotRotated';
}

/**
 * Workers know it within a minute.
 * @param isLost whether the new key signs itself, because the private part of the one before is lost
 * @throws NotRotated if that is not so, or if it is and `isLost` is false
 */
export async function rotateSigning(
  { db, secrets }: Keeper,
  isLost: boolean,
): Promise<PublicKeyEntry> {
  await ensureSigningKey({ db, secrets });
  return db.transaction(async (tx) => {
    await lockSigningKeys(tx);
    const before = await openKey(tx, secrets).catch((error: unknown) => {
      if (error instanceof SluiceError && error.code === 'secrets.signing_key_lost') return error;
      throw error;
    });
    if (before instanceof SluiceError && !isLost) {
      throw new NotRotated(
        `The private key cannot sign the new one (${before.detail}). Restore it, or use --lost: then each customer who trusts the old key must compare the new fingerprint.`,
      );
    }
    if (!(before instanceof SluiceError) && isLost) {
      throw new NotRotated(
        'The private key is not lost. Leave out --lost, so that it signs the new one.',
      );
    }
    return makeKey(tx, secrets, before instanceof SluiceError ? null : before);
  });
}

/**
 * Adds the keys that a restored database lacks from `keys.json` of a bucket, which any writer may have made: the newest that it has
 * signed the next one. Then ours signs nothing more, and the private part of the newest is lost.
 */
export async function learnKeys(db: Transactor, list: unknown): Promise<void> {
  const { keys } = Object(list) as { readonly keys?: unknown };
  await db.transaction(async (tx) => {
    await lockSigningKeys(tx);
    let last = (await listSigningKeys(tx)).at(-1);
    for (const entry of Array.isArray(keys) ? (keys as PublicKeyEntry[]) : []) {
      const { signature, ...facts } = Object(entry) as PublicKeyEntry;
      if (!last || facts.signed_by !== last.key_id || facts.key_id === last.key_id) continue;
      if (typeof signature !== 'string') continue;
      if (!isSignedBy(last.public_key, canonicalBytes(facts), signature)) continue;
      await addSigningKey(tx, entry, null);
      last = entry;
    }
  });
}

/** The bytes of `keys.json`, as docs/receipts.md describes them. */
export async function readPublicKeys(sql: Sql): Promise<Buffer> {
  return canonicalBytes({ type: 'sluice.keys.v1', keys: await listSigningKeys(sql) });
}
