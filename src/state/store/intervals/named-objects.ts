import type { Sql } from '../database/database.ts';
import { command, queryRows } from '../database/statement.ts';

/** An object that a current receipt names, or a statement that was put. */
export interface NamedObject {
  readonly key: string;
  readonly bytes: number | null;
  /** True if it is at the place of now. */
  readonly isHere: boolean;
}

export interface StatementFolder {
  readonly name: string;
  /** Of their keys: `a/_sluice/statements/`. */
  readonly folder: string;
}

/** Keys after one, up to another, as stores order them; null: no bound. */
export interface KeyRange {
  readonly after: string | null;
  readonly upTo: string | null;
}

/** Lists what must be at the place of an export: manifests, files, and the statements that were put. In the order of their keys. */
export const listNamedObjects = queryRows<
  NamedObject,
  [exportId: string, place: StatementFolder, range: KeyRange, limit: number]
>(
  `select * from (select k.key, k.bytes, c.destination_version = e.destination_version as "isHere"
       from batch_exports e join receipts c on c.export_id = e.id
       cross join lateral (
         select c.manifest_key as key, null::bigint as bytes where c.manifest_key is not null
         union all select f->>'key', (f->>'bytes')::bigint from jsonb_array_elements(c.files || c.rejected_files) f) k
      where e.id = $1
      union all
     select $3 || s.number || '.json', octet_length(s.body)::bigint, true
       from batch_exports e join statements s on s.export_id = e.id and s.number <= e.statement_put
      where e.id = $1 and e.statement_place = $2) named
      where key collate "C" > coalesce($4, '') and ($5::text is null or key collate "C" <= $5)
      order by key collate "C" limit $6`,
  (exportId, { name, folder }, { after, upTo }, limit) => [
    exportId,
    name,
    folder,
    after,
    upTo,
    limit,
  ],
);

/** @param upTo the next list begins after it; null: at the start */
export const noteListed = command<[exportId: string, upTo: string | null]>(
  'update batch_exports set statement_listed = $2 where id = $1 and statement_listed is distinct from $2',
);

/** Statements that were put and are not there are put again. @param missing keys of the place */
export async function putStatementsAgain(
  sql: Sql,
  exportId: string,
  { name, folder }: StatementFolder,
  missing: readonly string[],
): Promise<void> {
  const gone = missing.filter((key) => key.startsWith(folder));
  if (gone.length === 0) return;
  const numbers = gone.map((key) => Number.parseInt(key.slice(folder.length), 10));
  await sql.query(
    `update batch_exports set statement_put = $3 where id = $1 and statement_place = $2 and statement_put > $3`,
    [exportId, name, Math.min(...numbers) - 1],
  );
}
