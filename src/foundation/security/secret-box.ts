import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { SluiceError } from '../domain/errors.ts';

export interface SecretBox {
  /** @param identity the row of the secret; the box can be opened only for that row */
  seal(secret: Readonly<Record<string, unknown>>, identity: string): Buffer;
  /** @throws SluiceError `secrets.undecryptable` if key or row differ, or the box is damaged */
  open(box: Buffer, identity: string): Record<string, unknown>;
  readonly keyIds: readonly string[];
  keyIdOf(box: Buffer): string;
}

export interface EncryptionKey {
  readonly id: string;
  readonly key: Buffer;
}

const version = 1;
const nonceBytes = 12;
const tagBytes = 16;
const wrappedKeyBytes = nonceBytes + 32 + tagBytes;

/** Reads `id:base64`. @throws Error that says which entry is wrong, without its key */
export function parseEncryptionKeys(entries: readonly string[]): EncryptionKey[] {
  return entries.map((entry, index) => {
    const colon = entry.indexOf(':');
    const id = entry.slice(0, colon);
    const key = Buffer.from(entry.slice(colon + 1), 'base64');
    if (colon < 1 || id.length > 255 || key.length !== 32) {
      throw new Error(`entry ${index + 1} must be id:base64, with 32 bytes in base64`);
    }
    return { id, key };
  });
}

function encrypt(key: Buffer, plain: Buffer, aad: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(aad);
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, sealed: Buffer, aad: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, nonceBytes)).setAAD(aad);
  decipher.setAuthTag(sealed.subarray(sealed.length - tagBytes));
  return Buffer.concat([
    decipher.update(sealed.subarray(nonceBytes, sealed.length - tagBytes)),
    decipher.final(),
  ]);
}

/** AES-256-GCM, a data key per box. Layout: version, length and text of the key id, wrapped data key, sealed JSON. The rest is authenticated. */
export function createSecretBox(keys: readonly EncryptionKey[]): SecretBox {
  const [primary] = keys;
  if (!primary) throw new Error('ENCRYPTION_KEYS has no key');
  const byId = new Map(keys.map((entry) => [entry.id, entry.key]));

  const readId = (box: Buffer): string => {
    const length = box[1] ?? 0;
    if (box[0] !== version || box.length < 2 + length + wrappedKeyBytes + nonceBytes + tagBytes) {
      throw new SluiceError('secrets.undecryptable', 'the stored secret is damaged');
    }
    return box.subarray(2, 2 + length).toString();
  };

  return {
    keyIds: keys.map((entry) => entry.id),
    keyIdOf: readId,
    seal(secret, identity) {
      const id = Buffer.from(primary.id);
      const header = Buffer.concat([Buffer.from([version, id.length]), id]);
      const aad = Buffer.concat([header, Buffer.from(identity)]);
      const dataKey = randomBytes(32);
      return Buffer.concat([
        header,
        encrypt(primary.key, dataKey, aad),
        encrypt(dataKey, Buffer.from(JSON.stringify(secret)), aad),
      ]);
    },
    open(box, identity) {
      const id = readId(box);
      const key = byId.get(id);
      if (!key)
        throw new SluiceError('secrets.undecryptable', `key ${id} is not in ENCRYPTION_KEYS`);
      const bodyStart = 2 + Buffer.byteLength(id);
      const aad = Buffer.concat([box.subarray(0, bodyStart), Buffer.from(identity)]);
      try {
        const dataKey = decrypt(key, box.subarray(bodyStart, bodyStart + wrappedKeyBytes), aad);
        const plain = decrypt(dataKey, box.subarray(bodyStart + wrappedKeyBytes), aad);
        return JSON.parse(plain.toString()) as Record<string, unknown>;
      } catch (error) {
        throw new SluiceError('secrets.undecryptable', `key ${id} cannot decrypt it`, error);
      }
    },
  };
}
