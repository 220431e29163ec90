import { brokenConnections } from '../../../foundation/domain/patience.ts';

/** `read_only_sql_transaction`: after a failover the address may still lead to the standby. */
const readOnly = '25006';
/**
 * SQLSTATE classes and codes that say the server is unreachable, starting, stopping or takes no writes, that it lacks disk,
 * memory or connections (53), that its files fail (58), or that it ended a statement because of others: a deadlock, a
 * conflict, a cancelled statement. None is caused by what was asked, so it may be asked again.
 */
const unavailableStates = new RegExp(
  `^(08...|57P0[1-5]|57014|53...|58...|40001|40P01|55P03|${readOnly})$`,
);
/** pg gives these failures no code. */
const brokenMessages =
  /Connection terminated|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Query read timeout/;

/** Says whether a query failed only because Postgres is unreachable, or could not do it at this moment. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isDatabaseUnavailable)) return true;
  const code = 'code' in error ? String(error.code) : '';
  return (
    unavailableStates.test(code) ||
    brokenConnections.includes(code) ||
    brokenMessages.test(error.message)
  );
}

/** The server takes no writes: it is a standby, or was made read-only. */
export class ReadOnlyError extends Error {
  override readonly name = 'ReadOnlyError';
  readonly code = readOnly;

  constructor() {
    super('the server takes no writes');
  }
}

export function isReadOnly(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === readOnly;
}

const noTls = 'The server does not support SSL connections';
const unknownAuthority =
  /^(UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(_LOCALLY)?)|(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT))$/;
const badCertificate = /^(CERT_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|HOSTNAME_MISMATCH$)/;

/** Why no encrypted connection can be made until an operator changes something; null if that is not what failed. */
function findTlsFault({ message }: Error, code: string): string | null {
  if (message === noTls) {
    return 'PostgreSQL offers no TLS; turn on ssl there, or remove sslmode from the address';
  }
  if (unknownAuthority.test(code)) {
    return `the certificate of PostgreSQL is of an authority that this machine does not know (${message}); add sslrootcert=<path of the authority's certificate> to the address, or sslmode=no-verify to encrypt without verification`;
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `the certificate of PostgreSQL is of another host (${message.replace(/: *$/, '')}); use a name in the certificate as the host`;
  }
  return badCertificate.test(code)
    ? `no encrypted connection to PostgreSQL can be made (${message})`
    : null;
}

/** PgBouncer has one code for everything that it says itself. */
const saidByPgbouncer = '08P01';
const pgbouncerRefusals: readonly (readonly [RegExp, string])[] = [
  [
    /^(SASL|password) authentication failed|^no such user/,
    'refuses the user or the password; correct the address',
  ],
  [/^no such database/, 'does not serve the database; add it to [databases] of pgbouncer.ini'],
  [
    /^unsupported startup parameter/,
    'refuses a parameter of the address; remove it there, or add it to ignore_startup_parameters of pgbouncer.ini',
  ],
];

/** The reason, and the remedy: a wrong user, password or database, a missing schema. Null if nothing was refused. */
export function findRefusal(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error ? String(error.code) : '';
  if (code === saidByPgbouncer) {
    const [, refusal] = pgbouncerRefusals.find(([said]) => said.test(error.message)) ?? [];
    return refusal === undefined ? null : `PgBouncer (${error.message}) ${refusal}`;
  }
  if (code === '28P01' || code === '28000') {
    const isPlain = /no encryption/.test(error.message);
    const remedy = isPlain ? 'add sslmode=verify-full to' : 'correct';
    return `PostgreSQL refuses the login: ${error.message} (${code}); ${remedy} the address`;
  }
  const tls = findTlsFault(error, code);
  if (tls !== null) return tls;
  if (code === '42501' && error.message.includes('session_replication_role')) {
    return 'session_replication_role is replica for this role, so no trigger runs; run as a superuser: ALTER ROLE … RESET session_replication_role, or ALTER DATABASE …';
  }
  // pg's own error if the address has no password and the server requires one.
  if (error.message.startsWith('SASL'))
    return 'PostgreSQL requires a password; add it to the address';
  // Only the start of a session ends with these two.
  const isFatal = 'severity' in error && error.severity === 'FATAL';
  if (isFatal && code === '42501') {
    return `${error.message} (${code}); GRANT CONNECT ON DATABASE … TO the role`;
  }
  if (isFatal && code === '55000')
    return `the database accepts no connections (${code}); see ALLOW_CONNECTIONS`;
  return lacking[code]?.(error.message) ?? null;
}

/** Things that the server or the database lacks, by SQLSTATE. */
const lacking: Readonly<Record<string, (message: string) => string>> = {
  '3D000': () => 'the database does not exist (3D000); create it, or correct the address',
  '42P01': (message) => `${message} (42P01); run \`sluice migrate\``,
  '53400': (message) => `${message} (53400); raise this limit for the role`,
};
