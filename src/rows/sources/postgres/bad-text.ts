import { SluiceError } from '../../../foundation/domain/errors.ts';
import { describeInterval, toTimestamp } from '../../../foundation/domain/time.ts';
import { quoteName, quoteText } from '../../query/print.ts';
import type { SourceRequest } from '../source.ts';
import { inSnapshot, type SnapshotOptions } from './begin-snapshot.ts';
import { query } from './connection.ts';
import { serverErrorOf } from './errors.ts';
import type { RequestPlan } from './plan.ts';

/** Bytes that are no text in the encoding of the database, or a character that UTF-8 does not have. */
export const isOfEncoding = (error: SluiceError): boolean =>
  /^(22021|22P05)$/.test(serverErrorOf(error)?.code ?? '');

/** A longer key is cut. */
const longestKey = 200;

/**
 * The error of a text that has no form in UTF-8, with its column, the interval and, if it can be shown, the key of the first row with
 * such a text. It reads the rows of the interval once for each column, and about twenty times for the key.
 */
export async function nameBadText(
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
    return new SluiceError(
      error.code,
      `${words}, in a row of ${describeInterval(interval)}`,
      error,
    );
  }
  const row = named.key === undefined ? 'a row' : `the row with ${named.key}`;
  const place = `in the column ${named.name} of ${row}, of ${describeInterval(interval)}`;
  return new SluiceError(
    error.code,
    `${words}, ${place}. Correct the text in the source, or leave the column out of the query`,
    error,
  );
}

const describeKey = (row: Readonly<Record<string, string | null>>): string =>
  Object.entries(row)
    .map(
      ([name, text]) =>
        `${name} ${text !== null && text.length > longestKey ? `${text.slice(0, longestKey)}…` : text}`,
    )
    .join(', ');
