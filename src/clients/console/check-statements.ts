import type { StatementHead } from './api-types.ts';
import { type Api, wholeList } from './api.ts';
import { isRecord, parseJson } from './json.ts';

export interface StatementVerdict {
  readonly isRight: boolean;
  /** Months, and what the checker says. */
  readonly lines: readonly string[];
}

const cannot =
  'NOT CHECKED: this browser cannot check Ed25519 signatures at this address. Use a newer browser, and https, or run the checker.';

/**
 * Checks the statements of an export and their signatures by the script that customers run. The objects at the destination are
 * not looked at.
 *
 * @throws ApiFailure
 */
export async function checkStatements(
  api: Api,
  id: string,
  head: StatementHead,
  fingerprint: string,
): Promise<StatementVerdict> {
  if (!(await hasEd25519())) return { isRight: false, lines: [cannot] };
  const list = await wholeList((page) => api.get('batch_exports/{id}/statements', { id, ...page }));
  const paths = list.results.map(({ number }) => `_sluice/statements/${number}.json`);
  const names = ['_sluice/keys.json', ...paths];
  const open = async (path: string) => {
    if (!names.includes(path)) return null;
    const [, number] = /(\d+)\.json$/.exec(path) ?? [];
    const text = await (number === undefined
      ? api.getText('/api/signing_keys', {})
      : api.getText('batch_exports/{id}/statements/{number}', { id, number: Number(number) }));
    const bytes = new Blob([text]);
    return { size: bytes.size, body: bytes.stream() };
  };
  const { check } = await import('../../../client/check/sluice-check.mjs');
  const { exit, lines } = await check(
    { names, open },
    {
      // No interval ends after it, so no object is looked for.
      since: '9999-12-31',
      keys: [fingerprint],
      ...(head.sha256 !== null && { head: `${head.number}:${head.sha256}` }),
    },
  );
  return { isRight: exit === 0, lines: lines.filter((line) => !line.startsWith('Objects that')) };
}

/** Browsers have it in a secure context only: https, and localhost. */
async function hasEd25519(): Promise<boolean> {
  try {
    const pair = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
    return 'publicKey' in pair;
  } catch {
    return false;
  }
}

export interface SigningKey {
  /** SHA-256 of the public key; null if the browser cannot compute it here. */
  readonly fingerprint: string | null;
  readonly publicKey: string;
}

/** The newest key of the installation; null before the first. */
export async function readSigningKey(api: Api): Promise<SigningKey | null> {
  const answer = parseJson(await api.getText('/api/signing_keys', {}));
  const newest: unknown = isRecord(answer) && Array.isArray(answer.keys) && answer.keys.at(-1);
  if (!isRecord(newest) || typeof newest.public_key !== 'string') return null;
  const { public_key: publicKey } = newest;
  const pairs = publicKey.match(/../g) ?? [];
  const bytes = Uint8Array.from(pairs, (pair) => Number.parseInt(pair, 16));
  const digest = await globalThis.crypto.subtle?.digest('SHA-256', bytes);
  const digits =
    digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0'));
  return { fingerprint: digits?.join('') ?? null, publicKey };
}
