import { randomBytes } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import {
  createSecretBox,
  type EncryptionKey,
  parseEncryptionKeys,
  type SecretBox,
} from '../security/secret-box.ts';

/**
 * The keys that encrypt destination secrets: those of ENCRYPTION_KEYS, else a random key that is made on
 * the first start and kept in the data directory, readable only by its owner.
 */
async function loadEncryptionKeys(config: Config): Promise<readonly EncryptionKey[]> {
  if (config.ENCRYPTION_KEYS.length > 0) return parseEncryptionKeys(config.ENCRYPTION_KEYS);
  const path = join(config.SLUICE_DATA_DIR, 'encryption-key');
  await mkdir(config.SLUICE_DATA_DIR, { recursive: true });
  const made = `local-${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}\n`;
  // The first process writes; the others read.
  await writeFile(path, made, { mode: 0o600, flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  return parseEncryptionKeys([(await readFile(path, 'utf8')).trim()]);
}

/** Encrypts and decrypts the secrets of this installation. */
export async function openSecretBox(config: Config): Promise<SecretBox> {
  return createSecretBox(await loadEncryptionKeys(config));
}
