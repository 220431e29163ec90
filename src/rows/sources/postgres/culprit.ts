import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { describeInterval, toTimestamp } from '../../../foundation/domain/time.ts';
import { quoteName, quoteText } from '../../query/print.ts';
import type { SourceRequest } from '../source.ts';
import { inSnapshot } from './in-snapshot.ts';
import type { PlannedRequest, SnapshotOptions } from './snapshot-connections.ts';
import { findRelation } from './catalog.ts';
import { query } from './connection.ts';
import { nameDeniedRight } from './denied-right.ts';
import { serverErrorOf, showWords, toSourceError, withoutValue, wordsOf } from './errors.ts';
import { explain } from './explain.ts';
import { findApplied } from './hidden-rows.ts';
import type { PlanSelect, RequestPlan } from './plan.ts';
import { judgeTenantColumn } from './tenant-column.ts';

/** Errors with a remedy of their own: a second look would add it again. */
const refined = new WeakSet<SluiceError>();

/**
 * Who is at fault: the customer's query, its event filters, or the model with the views behind it.
 * @param error of preparing the statements, or of reading rows
 */
export async function findCulprit(
  error: unknown,
  { options, plan, request }: PlannedRequest,
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
  const searched = { options: search, plan, request };
  const underPolicy = (of: SluiceError) => namePolicy(of, searched, signal);
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
    explain(
      { ...searched, request: tried, plan: tried === request ? plan : planOfAnyTypes(plan) },
      signal,
      runs,
    ).then(() => null, toSourceError);
  const plain = { ...request, select: 'rows', dslQuery: null } as const;
  const alone = { ...plain, includeEvents: null, excludeEvents: null };
  const ofModel = await fails(alone);
  if (ofModel?.code === 'query.invalid') {
    const ofKey = await nameTenantKey(ofModel, searched, signal);
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
    const words = withoutValue(cause.detail ?? '');
    const ofModelRow = new SluiceError('source.model_invalid', words, error);
    return (await underPolicy(ofModelRow)) ?? ofModelRow;
  }
  return ofThis('query.invalid', cause, error);
}

/** Null if no policy raises it: a statement that reads the tenant column alone would fail alike. */
async function namePolicy(
  found: SluiceError,
  { options, plan, request }: PlannedRequest,
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
  const error = new SluiceError('source.unsupported', `${words}: ${named}`, found);
  refined.add(error);
  return error;
}

/** In the words of `sluice models check`; null if the error is another one. */
async function nameTenantKey(
  error: SluiceError,
  { options, plan, request }: PlannedRequest,
  signal: AbortSignal,
): Promise<SluiceError | null> {
  const { tenantKey } = request;
  if (!isQuoted(wordsIn(error), tenantKey)) return null;
  const { model } = plan(request);
  return inSnapshot(options, tenantKey, null, signal, async (client) => {
    const relation = await findRelation(client, model, signal);
    const column = relation?.columns.get(model.tenantColumn);
    if (!column) return null;
    const { finding } = judgeTenantColumn({ name: model.tenantColumn, ...column }, [tenantKey]);
    return finding && new SluiceError('source.model_invalid', finding.detail, error);
  });
}

/** Says whether a message of PostgreSQL quotes a value, in any of the languages that it speaks. */
export function isQuoted(message: string, value: string): boolean {
  const quote = `["'»«„“”「」]`;
  const text = value.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  return new RegExp(`${quote}\\s?${text}\\s?${quote}`).test(message);
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
  const culprit = await inSnapshot(searchOptions(options), tenantKey, null, signal, search).catch(
    () => {
      signal.throwIfAborted();
      return error;
    },
  );
  refined.add(culprit);
  return culprit;
}

/** Maximum time of the search, which reads the interval's rows once more. */
const longestSearchMs = 20_000;

/** Who waits for the error has waited for the failed statement too. */
function searchOptions(options: SnapshotOptions): SnapshotOptions {
  const statementTimeoutMs = Math.min(longestSearchMs, Math.ceil(options.statementTimeoutMs / 4));
  return { ...options, statementTimeoutMs };
}

/** Bytes that are no text in the encoding of the database, or a character that UTF-8 does not have. */
const isOfEncoding = (error: SluiceError): boolean =>
  /^(22021|22P05)$/.test(serverErrorOf(error)?.code ?? '');

const longestKey = 200;

/**
 * Names column, interval and, if it can be shown, the key of the first row with a text that has no form in UTF-8. It
 * reads the rows of the interval once for each column, and about twenty times for the key.
 */
async function nameBadText(
  error: SluiceError,
  options: SnapshotOptions,
  { model, relation }: Pick<RequestPlan, 'model' | 'relation'>,
  { tenantKey, interval }: SourceRequest,
  signal: AbortSignal,
): Promise<SluiceError> {
  const column = (name: string) => `source.${quoteName(name)}`;
  const inInterval = (moment: string) =>
    ` AND ${moment} >= ${quoteText(toTimestamp(interval.start))}::pg_catalog.timestamptz
      AND ${moment} < ${quoteText(toTimestamp(interval.end))}::pg_catalog.timestamptz`;
  const { intervalColumn } = model;
  const rows = `FROM ${relation.name} AS source WHERE ${column(model.tenantColumn)} = ${quoteText(tenantKey)}${
    intervalColumn === null ? '' : inInterval(column(intervalColumn))
  }`;
  const keys = model.keyColumns.map(column).join(', ');
  const named = await inSnapshot(options, tenantKey, relation, signal, async (client) => {
    const ask = async (sql: string): Promise<readonly Record<string, string>[] | null> => {
      await query(client, 'SAVEPOINT tried', signal);
      try {
        return await query<Record<string, string>>(client, sql, signal);
      } catch (caught) {
        signal.throwIfAborted();
        if (serverErrorOf(caught)?.code !== serverErrorOf(error)?.code) throw caught;
        await query(client, 'ROLLBACK TO SAVEPOINT tried', signal);
        return null;
      }
    };
    const fails = async (value: string, limit: number) =>
      (await ask(
        `SELECT pg_catalog.count(pg_catalog.convert_to(t.v, 'UTF8'))
           FROM (SELECT CAST(${value} AS pg_catalog.text) AS v ${rows} ORDER BY ${keys} LIMIT ${limit}) AS t`,
      )) === null;
    const [counted] = (await ask(`SELECT pg_catalog.count(*) AS n ${rows}`)) ?? [];
    const all = Number(counted?.n ?? 0);
    for (const { name, expression } of model.columns) {
      const value = expression === null ? column(name) : `(${expression})`;
      if (!(await fails(value, all))) continue;
      let [good, bad] = [0, all];
      while (bad - good > 1) {
        const middle = Math.floor((good + bad) / 2);
        if (await fails(value, middle)) bad = middle;
        else good = middle;
      }
      const shown = model.keyColumns.map(
        (key) => `CAST(${column(key)} AS pg_catalog.text) AS ${quoteName(key)}`,
      );
      const [row] =
        (await ask(`SELECT ${shown.join(', ')} ${rows} ORDER BY ${keys} OFFSET ${good} LIMIT 1`)) ??
        [];
      return { name, key: row && describeKey(row) };
    }
    return null;
  });
  const words = error.detail ?? '';
  if (named === null) {
    const detail = `${words}, in a row of ${describeInterval(interval)}`;
    return new SluiceError(error.code, detail, error);
  }
  const row = named.key === undefined ? 'a row' : `the row with ${named.key}`;
  const place = `in the column ${named.name} of ${row}, of ${describeInterval(interval)}`;
  const detail = `${words}, ${place}. Correct the text in the source, or leave the column out of the query`;
  return new SluiceError(error.code, detail, error);
}

const describeKey = (row: Readonly<Record<string, string | null>>): string =>
  Object.entries(row)
    .map(
      ([name, text]) =>
        `${name} ${text !== null && text.length > longestKey ? `${text.slice(0, longestKey)}…` : text}`,
    )
    .join(', ');
