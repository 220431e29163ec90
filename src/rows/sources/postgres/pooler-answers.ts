import type { ErrorCode } from '../../../foundation/domain/errors.ts';

const refusedByServer =
  /(server login failed|cached error).*(password|authentication|SCRAM|pg_hba|role|user|does not exist|not permitted)/i;

const behind = 'the server behind PgBouncer';
const look = 'The log of PgBouncer has the cause';

/** PgBouncer has one SQLSTATE, 08P01, so its words (1.18 to 1.25) decide. The first row that fits counts. */
const answers: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [
    /(max_client_conn|max_db_client_connections|max_user_client_connections|query_wait_timeout)/,
    'source.out_of_resources',
    'Raise $1 of PgBouncer, or use fewer connections',
  ],
  [
    /too many connections for role/,
    'source.out_of_resources',
    'Raise it by ALTER ROLE … CONNECTION LIMIT; 0 lets no session in',
  ],
  [
    /too many connections for database/,
    'source.out_of_resources',
    'Raise it by ALTER DATABASE … CONNECTION LIMIT; 0 lets no session in',
  ],
  [
    /too many clients|remaining connection slots/,
    'source.out_of_resources',
    `Raise max_connections of ${behind}, or use fewer connections`,
  ],
  // Supavisor, with SQLSTATE XX000.
  [
    /max client(s| connections) reached/i,
    'source.out_of_resources',
    'Raise the pool size of the pooler, or use fewer connections',
  ],
  [/memory|resources exhaustion/, 'source.out_of_resources', `PgBouncer lacks memory`],
  [/^query.timeout/, 'source.timeout', 'the limit of query_timeout of PgBouncer'],
  [
    /^idle transaction timeout/,
    'source.timeout',
    'the limit of idle_transaction_timeout of PgBouncer',
  ],
  [/^transaction timeout/, 'source.timeout', 'the limit of transaction_timeout of PgBouncer'],
  [
    /statement pooling mode/,
    'source.unsupported',
    'PgBouncer pools by statement. Set its pool_mode to transaction or session',
  ],
  [
    /unsupported (?:options )?startup parameter(?: in options)?: (\w+)/,
    'source.access_refused',
    'PgBouncer refuses the parameter $1 of the address. Remove it from the address, or name it in ignore_startup_parameters of PgBouncer',
  ],
  [
    /^SSL required/,
    'source.access_refused',
    'PgBouncer requires TLS. Add sslmode=verify-full to the address',
  ],
  [
    /not currently accepting connections|invalid database/,
    'source.access_refused',
    'the database accepts no connections. Allow them by ALTER DATABASE … ALLOW_CONNECTIONS true',
  ],
  [
    /refused SSL|TLS startup failed/,
    'source.access_refused',
    `PgBouncer and ${behind} agree on no TLS. Correct server_tls_sslmode of PgBouncer`,
  ],
  [
    refusedByServer,
    'source.access_refused',
    `${behind} refuses the login of PgBouncer. Correct the role, or the users and [databases] of PgBouncer`,
  ],
  [
    /SASL|SCRAM|password|authentication failed|no such (user|database)|login rejected|is disabled|not allowed|no username/,
    'source.access_refused',
    'the pooler refused the user, the password or the database of the address',
  ],
  [
    /config error|no authentication method|auth_ldap|auth_query/,
    'source.access_refused',
    'the configuration of PgBouncer has a fault, which its log names',
  ],
  [
    /cannot connect|connect (failed|timeout)|DNS lookup|starting up|shutting down|server down|conn crashed/,
    'source.unavailable',
    `PgBouncer reaches no server. ${look}`,
  ],
  [
    /client_login_timeout|client_idle_timeout|forced disconnect|lifetime over|configuration changed|connect string changed|pause/,
    'source.unavailable',
    'PgBouncer ended the connection',
  ],
  [
    /server_login_retry/,
    'source.failed',
    `PgBouncer cannot log in at its server. ${look} (server_login_retry)`,
  ],
];

/** Null: a server said it, or a pooler in words that are not known. The detail names no hosts. */
export function poolerAnswerOf(state: string, message: string) {
  if (state !== '08P01' && !(state === 'XX000' && /^Max/.test(message))) return null;
  for (const [words, code, text] of answers) {
    const [found, name = ''] = words.exec(message) ?? [];
    if (found === undefined) continue;
    const remedy = text.replace('$1', name);
    const isLimit = code === 'source.out_of_resources';
    const detail = isLimit ? `${message} (SQLSTATE ${state}). ${remedy}` : remedy;
    return { code, detail };
  }
  return null;
}
