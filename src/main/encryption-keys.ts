import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../foundation/config/config.ts';
import {
  createSecretBox,
  parseEncryptionKeys,
  type SecretBox,
} from '../foundation/security/secret-box.ts';
import { StartError } from './wait-for-database.ts';
import { makeFolder } from '../state/embedded-postgres/make-folder.ts';

/** ENCRYPTION_KEYS, else a random key that the first start keeps in the data directory, for its owner only. @throws StartError */
export async function openSecretBox(config: Config): Promise<SecretBox> {
  if (config.ENCRYPTION_KEYS.length > 0) return boxOf(config.ENCRYPTION_KEYS, 'ENCRYPTION_KEYS');
  const path = join(config.SLUICE_DATA_DIR, 'encryption-key');
  await makeFolder(config.SLUICE_DATA_DIR);
  const newKey = `local-${randomBytes(4).toString('hex')}:${randomBytes(32).toString('base64')}\n`;
  // The first process writes; the others read.
  await writeFile(path, newKey, { mode: 0o600, flag: 'wx' }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    },
  );
  return boxOf([(await readFile(path, 'utf8')).trim()], path);
}

function boxOf(entries: readonly string[], where: string): SecretBox {
  try {
    return createSecretBox(parseEncryptionKeys(entries));
  } catch (error) {
    const fault = error instanceof Error ? error.message : String(error);
    throw new StartError(`${where}: ${fault}. ${keyRemedy}`);
  }
}

const keyRemedy =
  'Make a new key by `echo "key1:$(openssl rand -base64 32)"`, but keep the keys that encrypted what is stored.';
