import { type ErrorCode, SluiceError } from '../../../foundation/domain/errors.ts';
import { oneLine } from '../../../foundation/domain/one-line.ts';
import { functions } from '../../query/functions.ts';
import { guardMark } from '../../query/print.ts';
import { CopyFormatError } from './row-blocks.ts';
import { poolerAnswerOf } from './pooler-answers.ts';

/**
 * By the first two characters. Whether the customer's query, the model or a function behind it caused a `query.invalid`
 * is found by `culprit.ts`. `test/unit/sources/sqlstates.test.ts` walks PostgreSQL's own list.
 */
const byClass: Readonly<Record<string, ErrorCode>> = {
  '03': 'source.failed',
  '08': 'source.unavailable',
  '09': 'source.function_failed',
  '0A': 'query.invalid', // feature not supported: by this server, or in this statement
  '0B': 'source.unsupported',
  '0F': 'source.function_failed',
  '0L': 'source.function_failed',
  '0P': 'source.function_failed',
  '0Z': 'source.function_failed',
  '10': 'query.invalid',
  '20': 'source.function_failed',
  '21': 'query.invalid', // cardinality violation
  '22': 'query.invalid', // data exception: a cast or a division that a row cannot take
  '23': 'source.function_failed',
  '24': 'source.function_failed',
  '25': 'source.unsupported',
  '26': 'source.unsupported', // a pooler that gives each statement another server
  '27': 'source.function_failed',
  '28': 'source.access_refused', // password, pg_hba.conf, NOLOGIN
  '2B': 'source.function_failed',
  '2D': 'source.function_failed',
  '2F': 'source.function_failed',
  '34': 'source.function_failed',
  '38': 'source.function_failed',
  '39': 'source.function_failed',
  '3B': 'source.function_failed',
  '3D': 'source.access_refused', // no such database
  '3F': 'source.relation_missing',
  '40': 'source.unavailable', // of a transaction: the next attempt is another one
  '42': 'query.invalid', // syntax error, unknown function, datatype mismatch
  '44': 'source.function_failed',
  '53': 'source.out_of_resources',
  '54': 'query.invalid', // program limit exceeded: a row or a value of more than 1 GiB, a deep stack
  '55': 'source.unsupported', // such as a materialized view without data
  '57': 'source.unavailable', // shut down, not started yet, ended by an administrator
  '58': 'source.failed', // of the server's operating system
  '72': 'source.timeout', // snapshot too old
  F0: 'source.unsupported', // the server's own configuration
  HV: 'source.unsupported', // foreign data wrapper
  P0: 'source.function_failed', // RAISE
  XX: 'source.failed', // the server's own bug, or damaged data
};

const byState: Readonly<Record<string, ErrorCode>> = {
  '08004': 'source.access_refused',
  '08P01': 'source.failed', // what a pooler says: pooler-answers.ts
  '22021': 'source.unsupported', // bytes that are no text in the encoding
  '22P05': 'source.unsupported', // a character that UTF-8 does not have
  '25006': 'source.function_failed', // it writes
  '25P03': 'source.timeout', // idle_in_transaction_session_timeout
  '25P04': 'source.timeout', // transaction_timeout
  '40002': 'source.function_failed',
  '42501': 'source.permission_denied',
  '42703': 'source.relation_missing',
  '42P01': 'source.relation_missing',
  '53400': 'source.unsupported', // a limit of the configuration, such as temp_file_limit
  '55006': 'source.unavailable', // object in use
  '55P03': 'source.timeout', // lock_not_available
  '57014': 'source.timeout', // query_canceled: statement_timeout, or by hand
  '57P04': 'source.access_refused', // the database was dropped
  '58P01': 'source.unsupported', // a file is missing, such as a library
  HV000: 'source.failed',
  HV001: 'source.out_of_resources',
  HV00N: 'source.unavailable', // the foreign server does not answer
  XX001: 'source.unsupported', // damaged data
  XX002: 'source.unsupported', // damaged index
};

export function meaningOf(sqlState: string): ErrorCode | null {
  return byState[sqlState] ?? byClass[sqlState.slice(0, 2)] ?? null;
}

/** A server's report. It leaves out undefined values. */
export interface ServerError extends Error {
  readonly code: string;
  readonly severity: string;
  /** The server's own function: `exec_stmt_raise` is that of RAISE. */
  readonly routine?: string;
  /** The function that raised it, and the functions that called that. */
  readonly where?: string;
  readonly detail?: string;
  readonly hint?: string;
}

export function serverErrorOf(error: unknown): ServerError | null {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code } = cause as Partial<ServerError>;
    if (code !== undefined && /^[0-9A-Z]{5}$/.test(code) && 'severity' in cause) {
      return cause as ServerError;
    }
  }
  return null;
}

/** The owner sees the server's words only for an error in a query, a function or a right: others may name hosts. */
export function toSourceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  if (error instanceof CopyFormatError) {
    return new SluiceError('source.unavailable', error.message, error);
  }
  if (!(error instanceof Error)) return new SluiceError('internal.unexpected', undefined, error);
  const reported = serverErrorOf(error);
  if (reported === null) return ofConnection(error);
  const { code: state, message } = reported;
  // Whatever SQLSTATE the author of the function chose.
  if (reported.routine === 'exec_stmt_raise') return ofFunction(reported, error);
  if (isOfOtherServer(reported)) return ofOtherServer(reported, error);
  if (isUnderPolicy(reported)) return ofPolicy(reported, error);
  const answer = poolerAnswerOf(state, message) ?? loginAnswerOf(reported);
  if (answer !== null) return new SluiceError(answer.code, answer.detail, error);
  // A standby that replays; on a primary 40001 is a conflict of writers, which a reader does not have.
  if (state === '40001') {
    return new SluiceError('source.recovery_conflict', `SQLSTATE ${state}: ${message}`, error);
  }
  // A value of more than 1 GiB has no SQLSTATE of its own.
  if (state === 'XX000' && message.startsWith('invalid memory alloc request size')) {
    return new SluiceError('query.invalid', message, error);
  }
  // Only our own statements sort, by the model's interval column and keys.
  if (state === '42883' && /ordering operator/.test(message)) {
    return new SluiceError('source.model_invalid', message, error);
  }
  const code = meaningOf(state) ?? 'source.failed';
  if (isRaised(reported) && raisedCodes.has(code)) return ofFunction(reported, error);
  return new SluiceError(code, detailOf(code, reported), error);
}

/** A limit of sessions, which passes as others end, or a closed database. Words depend on language, functions do not. */
function loginAnswerOf({ code, message, routine = '' }: ServerError): {
  readonly code: ErrorCode;
  readonly detail: string;
} | null {
  if (code === '53300') {
    const remedy = connectionLimits[routine] ?? 'Raise the limit of connections';
    return {
      code: 'source.out_of_resources',
      detail: `${message} (SQLSTATE ${code}). ${remedy}`,
    };
  }
  const closed = code === '55000' ? closedDatabases[routine] : undefined;
  return closed === undefined ? null : { code: 'source.access_refused', detail: closed };
}

const closedDatabases: Readonly<Record<string, string>> = {
  CheckMyDatabase:
    'the database accepts no connections (SQLSTATE 55000). Allow them by ALTER DATABASE … ALLOW_CONNECTIONS true',
  InitPostgres:
    'the database is invalid, as its DROP DATABASE was interrupted (SQLSTATE 55000). Restore it, or correct the database of the address',
};

const connectionLimits: Readonly<Record<string, string>> = {
  InitProcess: 'Raise max_connections of the server, or use fewer connections',
  ProcArrayAdd: 'Raise max_connections of the server, or use fewer connections',
  InitPostgres:
    'All connections are in use but those of superuser_reserved_connections and reserved_connections. Raise max_connections of the server, or use fewer connections',
  InitializeSessionUserId: 'Raise it by ALTER ROLE … CONNECTION LIMIT; 0 lets no session in',
  CheckMyDatabase: 'Raise it by ALTER DATABASE … CONNECTION LIMIT; 0 lets no session in',
};

/** Says whether the server refuses to leave out rows of a table, as `row_security` is off. */
export function isUnderPolicy(error: unknown): boolean {
  return serverErrorOf(error)?.routine === 'check_enable_rls';
}

function ofPolicy({ message, where = '' }: ServerError, cause: unknown): SluiceError {
  const detail = `${message}${innermostOf(where)}. The role that reads it would not see all rows. Give the role BYPASSRLS, or set row_security: filtered in the model if only the rows that the policy shows are to be exported`;
  return new SluiceError('source.unsupported', detail, cause);
}

/** Of a foreign table or dblink. A server says 08001 of no connection to itself. */
function isOfOtherServer({ code, routine = '' }: ServerError): boolean {
  // Errors of a row or a condition there are found like any other error of a row.
  if (/^2[12]/.test(code)) return false;
  return /^(08001|2F003)$/.test(code) || /^(pgfdw_|dblink_res_error)/.test(routine);
}

/** Libpq's words about a login that was refused, which no retry changes. */
const refusedLogin = /password|authentication|pg_hba|(role|database) "[^"]*" does not exist/i;

function ofOtherServer(found: ServerError, cause: unknown): SluiceError {
  const { code: state, message, detail = '' } = found;
  const isPassing = /^(08|40|53|57|58)/.test(state) && !refusedLogin.test(detail);
  const code = isPassing ? 'source.unavailable' : 'source.unsupported';
  // The detail may name hosts.
  const remedy = refusedLogin.test(`${message} ${detail}`)
    ? '. It refuses the login: correct the user mapping, or the connection of the function'
    : '';
  const text = `a server that the relation reads from, such as that of a foreign table: ${message} (SQLSTATE ${state})${remedy}`;
  return new SluiceError(code, text, cause);
}

/** Codes that blame another, though a function behind a view can be at fault. */
const raisedCodes: ReadonlySet<ErrorCode> = new Set([
  'query.invalid',
  'source.failed',
  'source.function_failed',
  'source.relation_missing',
  'source.unsupported',
]);

/** Built-in functions, which a query may call, seldom give a context. Each in it has parentheses or is named as one. */
function isRaised({ where = '' }: ServerError): boolean {
  const [, builtIn = ''] = /^SQL function "(\w+)"/.exec(where) ?? [];
  return (
    !functions.has(builtIn) &&
    !/^(JSON\b|remote SQL)/.test(where) &&
    /\w\(|function|PL\//i.test(where)
  );
}

/** Names, or text of a statement: with spaces, from its line's first quote to one at the end of a line. */
const quotedText = /["»«„“]\s?([^"»«„“”]*?)\s?["»«“”]/g;
const statementText = /(^|\n)[^\n"»«„“]*["»«„“][^"»«„“”]*\s.*?["»«“”](?=\n|$)/gs;

/** Characters of a context in which a function is looked for. A statement in it may have a whole value. */
const longestContext = 8_000;

/** Without the text of a statement: it may have secrets of the operator, and values of rows. */
function innermostOf(where = ''): string {
  if (where.length > longestContext) return '';
  const calls = where.replace(statementText, '$1…').split('\n');
  const place = calls.find((line) => {
    const isNamed = [...line.matchAll(quotedText)].every(([, text = '']) => /^[\w.]*$/.test(text));
    return isNamed && /function|PL\//i.test(line) && !/[…']/.test(line);
  });
  return place === undefined ? '' : `, in ${place}`;
}

/** With the innermost function. Words that the function's author chose may have values of rows: `showWords` adds them. */
function ofFunction(found: ServerError, cause: unknown): SluiceError {
  const { code: state, message, where, routine } = found;
  const isAuthored = routine === 'exec_stmt_raise' || /^(38|39|P0001|P0004|XX)/.test(state);
  const words = isAuthored
    ? `a function raised an error (SQLSTATE ${state})`
    : /^2/.test(state)
      ? withoutValue(message)
      : message;
  return new SluiceError('source.function_failed', `${words}${innermostOf(where)}`, cause);
}

export function showWords(error: SluiceError, { message, where }: ServerError): SluiceError {
  return new SluiceError(error.code, `${message}${innermostOf(where)}`, error);
}

/** A view or a function may fail on another tenant's value, so it is not for the owner of the export. */
export const withoutValue = (words: string): string => words.replace(/["»«„“「].*["»«“”」]/gs, '…');

/** A network failure (`ECONNREFUSED`), one of TLS, or pg's own error about a connection. */
function ofConnection(error: Error): SluiceError {
  if (error instanceof TypeError || error instanceof RangeError) {
    return new SluiceError('internal.unexpected', undefined, error);
  }
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
  const refusal = clientRefusals.find(({ test }) => test.test(`${code} ${error.message}`));
  if (refusal) return new SluiceError('source.access_refused', refusal.detail(code), error);
  return new SluiceError('source.unavailable', code ?? undefined, error);
}

/** A client refuses these or cannot do them. None passes by itself. */
const clientRefusals: readonly {
  readonly test: RegExp;
  readonly detail: (code: string | null) => string;
}[] = [
  {
    test: /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH/,
    detail: (code) =>
      `the certificate of the server is not trusted (${code}). Set sslrootcert to the certificate of its authority, and use the host name of the certificate`,
  },
  {
    test: /does not support SSL/,
    detail: () =>
      'the address asks for TLS, but the server offers none. Correct sslmode, or turn on ssl in the server',
  },
  {
    test: /ERR_SSL|ERR_OSSL|EPROTO/,
    detail: (code) => `the server and Sluice agree on no TLS (${code})`,
  },
  {
    test: /channel binding/,
    detail: () =>
      'the address has channel_binding=require, but the server offers no channel binding. It needs a password that is stored as scram-sha-256, and TLS that ends at the server. Otherwise remove channel_binding from the address',
  },
  {
    test: /SASL|password must be a string/,
    detail: () =>
      'the server asks for a password in a way that does not fit the address. Correct the password',
  },
];

function detailOf(code: ErrorCode, found: ServerError): string {
  const { code: state, message, where, detail = '' } = found;
  switch (code) {
    case 'source.unavailable':
    case 'source.failed':
      // A server that starts or stops names no host. It may never start to serve, such as one without hot_standby.
      if (/^57P0[1-3]$/.test(state))
        return `${message}${detail && `: ${detail}`} (SQLSTATE ${state})`;
      return limits[state] ?? `SQLSTATE ${state}`;
    case 'source.access_refused':
      return describeRefusal(state, message);
    case 'source.timeout':
      return limits[state] ?? message;
    case 'source.out_of_resources':
      return `SQLSTATE ${state}: ${message}${shortages[state] ?? ''}`;
    default:
      break;
  }
  const text = wordsOf(message);
  if (code === 'query.invalid' && /^2/.test(state)) return withoutValue(text);
  return code === 'source.permission_denied' ? `${text}${innermostOf(where)}` : text;
}

/** The words of a server, without what a guard adds: its text comes in the cast error that the guard causes. */
export function wordsOf(message: string): string {
  const start = message.indexOf(`"${guardMark}`);
  return start < 0 ? message : message.slice(start + 1).replace(/"$/, '');
}

const shortages: Readonly<Record<string, string>> = {
  '53100': '. Free space on the disk of the server',
  '53200': '. Give the server more memory, or lower its work_mem',
};

const limits: Readonly<Record<string, string>> = {
  '25P03': 'the limit of idle_in_transaction_session_timeout',
  '25P04': 'the limit of transaction_timeout',
  '55P03': 'the limit of lock_timeout',
  '57P05': 'the limit of idle_session_timeout',
};

/** Hosts are not named: `no pg_hba.conf entry for host "10.0.0.7"`. */
function describeRefusal(state: string, message: string): string {
  switch (state) {
    case '28P01':
      return 'the server refused the password of the role, or it has expired (VALID UNTIL; SQLSTATE 28P01)';
    case '28000':
      return /no encryption|SSL off/.test(message)
        ? 'pg_hba.conf of the server lets the role in only with TLS (SQLSTATE 28000). Add sslmode=verify-full to the address'
        : 'pg_hba.conf of the server does not let the role in, or the role may not log in (SQLSTATE 28000)';
    case '3D000':
      return 'the database of the address does not exist (SQLSTATE 3D000)';
    default:
      return `SQLSTATE ${state}`;
  }
}

/** Characters of an error in `sluice models check`. */
const longestWords = 4_000;

/** For the operator, who may read all words of the server. */
export function describeForOperator(error: SluiceError): string {
  const { message } = serverErrorOf(error) ?? (error.cause as Error | undefined) ?? {};
  const detail = error.detail ?? '';
  const words =
    message === undefined || detail.includes(message) ? detail : `${detail}: ${message}`;
  return oneLine(`${error.code}: ${words.replace(/^: /, '') || error.spec.means}`, longestWords);
}
