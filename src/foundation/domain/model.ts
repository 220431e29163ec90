import { type ExportMode, exportSettings } from './export-settings.ts';

/** A relation that can be exported, how its rows belong to a tenant and an interval, its columns. */

export interface ModelColumn {
  /** The name in queries and files. Without an expression also the relation's column. */
  readonly name: string;
  /** SQL over the relation's columns, written by the operator and trusted; null for a plain column. */
  readonly expression: string | null;
  /** PostgreSQL's name of the type: `text`, `timestamp with time zone`. */
  readonly sourceType: string;
  /** True if `column.key` reaches into its JSON. */
  readonly json: boolean;
}

/** The way to find the rows of an export of changes: a version that each write of a row sets. */
export interface ModelChanges {
  /** An `xid8`, or a `timestamptz`. */
  readonly versionColumn: string;
  /** `client`: a program sets the time, so rows may come late. */
  readonly setBy: 'database' | 'client';
  readonly deletes: ModelDeletes;
}

export type ModelDeletes =
  | { readonly kind: 'none' }
  /** A column of the relation marks them: true, or any time. */
  | { readonly kind: 'column'; readonly column: string }
  /** A trigger writes their keys into a table, which has the model's tenant, key and version columns. */
  | {
      readonly kind: 'tombstones';
      readonly relation: { readonly schema: string; readonly name: string };
      /** The minimum days for which the table keeps them; null: for ever. */
      readonly days: number | null;
    }
  /** The keys that were delivered are compared with those of the relation. */
  | {
      readonly kind: 'compare';
      /** In how many elements once. */
      readonly every: number;
    };

export interface Model {
  /** A query names it in FROM. */
  readonly name: string;
  readonly relation: { readonly schema: string; readonly name: string };
  readonly tenantColumn: string;
  /** Decides the interval of a row, as timestamptz. Null: no column does, so only all rows together can be exported. */
  readonly intervalColumn: string | null;
  /** Identify a row within a tenant; columns of the relation. */
  readonly keyColumns: readonly string[];
  /** The column that include_events and exclude_events filter by; null if the model has none. */
  readonly eventColumn: string | null;
  /** `filtered`: what row-level security shows is exported. Null: a policy that may leave out rows is refused. */
  readonly rowSecurity?: 'filtered' | null;
  /** Says what happens if a column has another type in the database than here; default `fail`. */
  readonly onSchemaChange?: 'fail' | 'follow';
  /** The hours in which late rows are looked for, unless the export says it; null: as everywhere in the installation. */
  readonly lookBackHours?: number | null;
  /** Null or missing: the model allows no export of changes. */
  readonly changes?: ModelChanges | null;
  /** In the order of `SELECT *`. Nothing else of the relation can be read. */
  readonly columns: readonly ModelColumn[];
}

/** The mode of an export that does not say it. Rows without a time of arrival can only be exported all together. */
export const usualMode = (model: Pick<Model, 'intervalColumn'> | undefined): ExportMode =>
  model?.intervalColumn === null ? 'snapshot' : 'append';

export const modesOf = ({
  intervalColumn,
  changes,
}: Pick<Model, 'intervalColumn' | 'changes'>): readonly ExportMode[] =>
  exportSettings.mode.choices.filter(
    (mode) => mode === 'snapshot' || (mode === 'append' ? intervalColumn !== null : changes),
  );
