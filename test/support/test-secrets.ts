import { randomBytes } from 'node:crypto';
import { createSecretBox } from '../../src/foundation/security/secret-box.ts';

/** A box with a key of its own: what it seals, no other box opens. */
export const testSecrets = () => createSecretBox([{ id: 'test', key: randomBytes(32) }]);
