import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { quoteName, quoteText } from '../../query/print.ts';
import { refusedTime } from '../../query/time-text.ts';
import type { SourceRequest } from '../source.ts';
import { isOfEncoding, nameBadText } from './bad-text.ts';
import { inSnapshot, type SnapshotOptions } from './begin-snapshot.ts';
import { findRelation } from './catalog.ts';
import { query } from './connection.ts';
import { nameDeniedRight } from './denied-right.ts';
import { serverErrorOf, showWords, toSourceError, withoutValue, wordsOf } from './errors.ts';
import { explain } from './explain.ts';
import { findApplied } from './hidden-rows.ts';
import type { PlanSelect } from './plan.ts';
import { judgeTenantColumn } from './tenant-column.ts';

/** Errors with a remedy of their own: a second look would add it again. */
const refined = new WeakSet<SluiceError>();

/**
 * The error of a request with the name of what is at fault. A statement that fails has three authors: the customer's
 * query, its event filters, and the model with the views behind it. Only what is there can be at fault. If it is the
 * query, a row that it fails on is named, if one is found.
 *
 * @param error of preparing the statements, or of reading rows
 */
export async function findCulprit(
  error: unknown,
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<SluiceError> {
  const cause = toSourceError(error);
  if (refined.has(cause)) return cause;
  if (cause.code === 'source.permission_denied') {
    return refine(cause, options, request, signal, (client) =>
      nameDeniedRight(cause, client, plan(request).relation, signal),
    );
  }
  const search = searchOptions(options);
  const underPolicy = (of: SluiceError) => namePolicy(of, search, plan, request, signal);
  if (cause.code === 'source.function_failed') {
    const named = await nameWords(cause, options, request, signal);
    return (await underPolicy(named)) ?? named;
  }
  if (cause.code === 'source.unsupported' && isOfEncoding(cause)) {
    const named = await nameBadText(cause, search, plan(request), request, signal).catch(() => {
      signal.throwIfAborted();
      return cause;
    });
    refined.add(named);
    return named;
  }
  if (cause.code !== 'query.invalid') return cause;
  const fails = (tried: SourceRequest, runs = false) =>
    explain(search, tried === request ? plan : planOfAnyTypes(plan), tried, signal, runs).then(
      () => null,
      toSourceError,
    );
  const plain = { ...request, select: 'rows', dslQuery: null } as const;
  const alone = { ...plain, includeEvents: null, excludeEvents: null };
  const ofModel = await fails(alone);
  if (ofModel?.code === 'query.invalid') {
    const ofKey = await nameTenantKey(ofModel, search, plan, request, signal);
    return ofKey ?? (await underPolicy(ofModel)) ?? ofThis('source.model_invalid', ofModel, error);
  }
  const hasFilters = (request.includeEvents ?? request.excludeEvents) !== null;
  const ofFilters = hasFilters ? await fails(plain) : null;
  if (ofFilters?.code === 'query.invalid') return ofThis('query.invalid_events', ofFilters, error);
  const hasQuery = request.dslQuery !== null;
  const ofQuery = hasQuery ? await fails(request) : null;
  signal.throwIfAborted();
  if (ofQuery?.code === 'source.schema_changed') return ofQuery;
  if (ofQuery?.code === 'query.invalid') return ofThis('query.invalid', cause, error);
  // The server can plan all of it, so it fails on a row, or the server lacks something else.
  if (!isOfRow(cause)) return new SluiceError('source.unsupported', cause.detail, error);
  const ofRows = hasQuery || hasFilters ? await fails(alone, true) : cause;
  signal.throwIfAborted();
  if (ofRows && serverErrorOf(ofRows)?.message === serverErrorOf(cause)?.message) {
    const ofModelRow = new SluiceError(
      'source.model_invalid',
      withoutValue(cause.detail ?? ''),
      error,
    );
    return (await underPolicy(ofModelRow)) ?? ofModelRow;
  }
  const { relation } = plan(request);
  const sqlOf = (value: string) => plan(request).findRowSql(request.interval, value);
  const read = (sql: string) =>
    inSnapshot(search, request.tenantKey, relation, signal, (client) => query(client, sql, signal));
  return nameFailingRow(error, sqlOf, read, signal);
}

/**
 * The error with the policies that raise it; null if they do not: a statement that reads no column but that of the tenant would fail
 * alike, and policies apply to what it reads.
 */
async function namePolicy(
  found: SluiceError,
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const said = serverErrorOf(found);
  if (said === null) return null;
  const { relation, model } = plan(request);
  const tenant = `${quoteName(model.tenantColumn)} = ${quoteText(request.tenantKey)}`;
  const sql = `SELECT pg_catalog.count(*) FROM ${relation.name} WHERE ${tenant}`;
  const named = await inSnapshot(options, request.tenantKey, relation, signal, async (client) => {
    const applied = await findApplied(client, relation, signal);
    if (applied === null) return null;
    const bare = await query(client, sql, signal).then(() => null, toSourceError);
    return serverErrorOf(bare)?.message === said.message ? applied : null;
  }).catch(() => {
    signal.throwIfAborted();
    return null;
  });
  if (named === null) return null;
  const words = (found.detail ?? withoutValue(wordsIn(found))).replace(/\.$/, '');
  const made = new SluiceError('source.unsupported', `${words}: ${named}`, found);
  refined.add(made);
  return made;
}

/** The error of a tenant key that the tenant column cannot have, in the words of `sluice models check`; null if it is another one. */
async function nameTenantKey(
  error: SluiceError,
  options: SnapshotOptions,
  plan: PlanSelect,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const { tenantKey } = request;
  if (!quotedValues(wordsIn(error)).includes(tenantKey)) return null;
  const { model } = plan(request);
  return inSnapshot(options, tenantKey, null, signal, async (client) => {
    const relation = await findRelation(client, model, signal);
    const column = relation?.columns.get(model.tenantColumn);
    if (!column) return null;
    const { finding } = judgeTenantColumn({ name: model.tenantColumn, ...column }, [tenantKey]);
    return finding && new SluiceError('source.model_invalid', finding.detail, error);
  });
}

/** A change of a type that the request does not read is not its fault. */
const planOfAnyTypes =
  (plan: PlanSelect): PlanSelect =>
  (request) => {
    const planned = plan(request);
    return { ...planned, model: { ...planned.model, onSchemaChange: 'follow' } };
  };

/** With all words: the server has read no row for them. */
const ofThis = (
  code: 'source.model_invalid' | 'query.invalid' | 'query.invalid_events',
  of: SluiceError,
  cause: unknown,
) => new SluiceError(code, wordsIn(of), cause);

const wordsIn = (error: SluiceError): string => {
  const said = serverErrorOf(error);
  return said === null ? (error.detail ?? '') : wordsOf(said.message);
};

/** Data exceptions, cardinality, and limits of a value's size. */
const isOfRow = (error: SluiceError): boolean => {
  const state = serverErrorOf(error)?.code ?? '22000';
  return /^(2|54|XX)/.test(state);
};

/** Text that the author of a function has written in it has no value of a row. */
const isWrittenSql = `SELECT EXISTS (SELECT FROM pg_catalog.pg_proc AS p
  WHERE p.oid >= '16384' AND pg_catalog.strpos(pg_catalog.replace(p.prosrc, '''''', ''''), $1) > 0) AS "isWritten"`;

async function nameWords(
  error: SluiceError,
  options: SnapshotOptions,
  request: SourceRequest,
  signal: AbortSignal,
): Promise<SluiceError> {
  const said = serverErrorOf(error);
  if (said === null || (error.detail ?? '').includes(said.message)) return error;
  return refine(error, options, request, signal, async (client) => {
    const words = [said.message];
    const [row] = await query<{ isWritten: boolean }>(client, isWrittenSql, signal, words);
    return row?.isWritten === true ? showWords(error, said) : error;
  });
}

/** Returns what a search makes of an error; the error as it is if the search fails. */
async function refine(
  error: SluiceError,
  options: SnapshotOptions,
  { tenantKey }: SourceRequest,
  signal: AbortSignal,
  search: (client: pg.Client) => Promise<SluiceError>,
): Promise<SluiceError> {
  const made = await inSnapshot(searchOptions(options), tenantKey, null, signal, search).catch(
    () => {
      signal.throwIfAborted();
      return error;
    },
  );
  refined.add(made);
  return made;
}

/** Maximum time of the search, which reads the interval's rows once more. */
const longestSearchMs = 20_000;

/** The options for the search: who waits for the error has waited for the failed statement too. */
function searchOptions<Options extends { readonly statementTimeoutMs: number }>(
  options: Options,
): Options {
  const statementTimeoutMs = Math.min(longestSearchMs, Math.ceil(options.statementTimeoutMs / 4));
  return { ...options, statementTimeoutMs };
}

/** A longer value is not searched for, and a longer key is cut. */
const longestValue = 10_000;
const longestKey = 200;

/**
 * The error of a query with the key of a row that has the value of PostgreSQL's message, if the message has
 * one and a search finds it soon: `invalid input syntax for type integer: "abc", in the row with id 17`.
 *
 * @param sqlOf finds the keys of a row with that value; null if it cannot
 * @param read reads the rows of an SQL with `searchOptions`
 * @throws the signal's reason if it aborts
 */
async function nameFailingRow(
  error: unknown,
  sqlOf: (value: string) => string | null,
  read: (sql: string) => Promise<readonly KeyRow[]>,
  signal: AbortSignal,
): Promise<SluiceError> {
  const sourceError = toSourceError(error);
  if (sourceError.code !== 'query.invalid') return sourceError;
  const said = serverErrorOf(error);
  const words = said === null ? (sourceError.detail ?? '') : wordsOf(said.message);
  for (const value of quotedValues(words)) {
    const sql = sqlOf(value);
    const key = sql === null ? null : await read(sql).then(keyOf, () => null);
    signal.throwIfAborted();
    if (key === null) continue;
    return new SluiceError(sourceError.code, `${words}, in the row with ${key}`, error);
  }
  return new SluiceError(sourceError.code, words, error);
}

/** Quotes of the languages that PostgreSQL speaks. */
const quoted = /"(.*?)"|»(.*?)«|«(.*?)»|„(.*?)[“”]|“(.*?)”|「(.*?)」|'(.*?)'/gs;
/** A value may have quotes in it. */
const lastQuoted = /: "(.*)"$/s;

/** Lists the texts that a message of PostgreSQL quotes, in any language: the last is the value that it cannot read, or the first. */
export function quotedValues(message: string): readonly string[] {
  const [, whole] = lastQuoted.exec(message) ?? [];
  const all = [...message.matchAll(quoted)].map(([, ...groups]) => {
    const value = groups.find((group) => group !== undefined) ?? '';
    return value
      .replace(/^\u00a0|\u00a0$/g, '')
      .replace(refusedTime, '')
      .trim();
  });
  const values = [(whole ?? '').replace(refusedTime, ''), ...all.reverse()];
  const short = values.filter((value) => value !== '' && value.length <= longestValue);
  return [...new Set(short)].slice(0, 3);
}

type KeyRow = Readonly<Record<string, string | null>>;

/** `id 17`; null if no row was found. */
function keyOf([row = {}]: readonly KeyRow[]): string | null {
  const parts = Object.entries(row).map(([name, text]) => {
    const shown =
      text !== null && text.length > longestKey ? `${text.slice(0, longestKey)}…` : text;
    return `${name} ${shown}`;
  });
  return parts.length === 0 ? null : parts.join(', ');
}
