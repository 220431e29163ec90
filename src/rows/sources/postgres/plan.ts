import { changeColumnNames } from '../../../foundation/domain/element.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Model, ModelColumn } from '../../../foundation/domain/model.ts';
import type { Column } from '../../../foundation/domain/row-block.ts';
import { type DataInterval, toTimestamp } from '../../../foundation/domain/time.ts';
import { BoundedMap } from '../../query/bounded-map.ts';
import { withChangeColumns, withChangeOutputs } from '../../query/change-rows.ts';
import { copyDeletesSqls, copyGivenSql } from '../../query/deleted-rows.ts';
import {
  describeComputed,
  type Output,
  type ParsedQuery,
  parseQuery,
  usedColumns,
} from '../../query/parse-query.ts';
import {
  copyKeySetSql,
  copyKeysSql,
  copySql,
  countLateSql,
  countSql,
  describeSql,
  elsewhereSql,
  explainSql,
  type KeyTexts,
  outputsOf,
  relationOf,
  type SentColumn,
} from '../../query/select.ts';
import type { Selection } from '../../query/selection.ts';
import type { Projection, SourceRequest } from '../source.ts';
import { columnTypeOf, type DescribedColumn, isNested } from './column-types.ts';
import type { ReadRelation } from './hidden-rows.ts';
import { writtenType } from './schema-changes.ts';
import { changesOf, type SequencePlan, sequencePlanOf, versionColumnOf } from './sequence-point.ts';
import { refuseTenantColumn } from './tenant-column.ts';

/** `copySql` sorts by interval column, then key: unchanged rows always come in the same order. */
export interface SelectPlan {
  readonly columns: readonly Column[];
  /** `COPY (SELECT …) TO STDOUT (FORMAT binary)`; its columns are `columns`, in their order. */
  copySql(range: DataInterval): string;
  /** @param runs whether it reads the rows, and throws them away; default false */
  explainSql(range: DataInterval, runs?: boolean): string;
  /** One row, one column: how many rows `copySql` gives; `limit` if they are more, unless it is null. */
  countSql(range: DataInterval, limit: number | null): string;
  /** One row, one column: rows of the range written by transactions at or after `xmin`. */
  countLateSql(range: DataInterval, xmin: string): string;
  readonly projection: Projection | null;
  readonly moment: Pick<Column, 'name' | 'type' | 'sourceType'> | null;
  /** Columns that `copySql` sends after `columns`. */
  readonly hidden: readonly Column[];
  /** Finds rows with one of these keys outside the range; only for a request of keys. */
  elsewhereSql?(range: DataInterval, keys: readonly KeyTexts[]): string;
  /** `columns` are the keys and the version; missing: there are none. */
  readonly deletes?: {
    readonly columns: readonly Column[];
    copySqls(range: DataInterval): readonly string[];
    keysSqls(keys: readonly KeyTexts[]): readonly string[];
  };
  readonly keys: {
    /** The index of each key column in a row of `copySql`; `hidden` columns follow `columns`. */
    readonly places: readonly number[];
    readonly columns: readonly Column[];
    copySql(range: DataInterval): string;
  } | null;
}

export class PlannedRows {
  readonly select: SelectPlan;
  readonly columns: readonly Column[];
  readonly hasDays: boolean;
  readonly keyIndices: readonly number[];
  readonly showsKeys: boolean;
  readonly projection: Projection | null;

  constructor(select: SelectPlan) {
    const { columns, keys, moment, projection } = select;
    const isShown = (place: number) => place < columns.length;
    this.select = select;
    this.columns = columns;
    this.hasDays = moment?.type === 'date';
    this.keyIndices = keys?.places.filter(isShown) ?? [];
    this.showsKeys = keys === null ? columns.length > 0 : keys.places.every(isShown);
    this.projection = projection;
  }
}

/** A plan that lacks the types of its columns, which only the server knows. */
export interface RequestPlan extends Pick<SelectPlan, 'countSql' | 'countLateSql'> {
  readonly relation: ReadRelation;
  /** As the request reads it: without an interval column if it is of all rows. */
  readonly model: Model;
  readonly sequence: SequencePlan | null;
  /** A SELECT whose columns the server is asked to describe; it need not run. */
  readonly describeSql: string;
  /** The columns of the model that the request reads, and a SELECT of them to be described; null if `describeSql` begins with them. */
  readonly used: { readonly columns: readonly ModelColumn[]; readonly describeSql: string | null };
  select(described: readonly DescribedColumn[]): SelectPlan;
}

export type PlanSelect = (request: SourceRequest) => RequestPlan;

export function planModels(models: readonly Model[]): PlanSelect {
  const readQuery = queryReader();
  return (request) => {
    const declared = models.find(({ name }) => name === request.model);
    if (!declared) throw new SluiceError('source.unknown_model', request.model);
    const { element } = request;
    const plain = modelFor(declared, request);
    const selected = request.dslQuery === null ? null : readQuery(request.dslQuery, plain);
    const parsed = element && selected ? withChangeOutputs(selected) : selected;
    const model = element ? withChangeColumns(plain, changesOf(plain), element) : plain;
    const projection = request.select === 'columns' ? projectionOf(model, parsed) : null;
    const query = projection && parsed ? { ...parsed, outputs: outputsOf(model, null) } : parsed;
    const sequence = element ? sequencePlanOf(plain) : null;
    return { ...planRequest({ request, model, query, projection }), sequence };
  };
}

function modelFor(model: Model, { whole }: SourceRequest): Model {
  if (whole) return { ...model, intervalColumn: null };
  if (model.intervalColumn !== null) return model;
  const detail = `${model.name} has no interval_column. Name one in the models file, or export it with mode snapshot`;
  throw new SluiceError('source.model_invalid', detail);
}

function planRequest(read: ReadRequest): Omit<RequestPlan, 'sequence'> {
  const { request, model, query } = read;
  const selectionOf = selectionsOf(read);
  const { intervalColumn } = model;
  const described = [...hiddenKeysOf(read), ...(intervalColumn === null ? [] : [intervalColumn])];
  return {
    relation: readRelationOf(model),
    model,
    describeSql: describeSql(model, query, described),
    used: usedBy(request, model, query),
    select(given) {
      // The last two of what `describeSql` describes.
      refuseTenantColumn(model.tenantColumn, given.at(-1));
      const { typeOid = 0, sourceType = '' } = given.at(-2) ?? {};
      const moment =
        intervalColumn === null
          ? null
          : { name: intervalColumn, type: columnTypeOf(typeOid), sourceType };
      const sent = sentColumns(read, given);
      const planOf = request.select === 'keys' ? planOfKeys : planOfRows;
      return { ...planOf(read, sent), moment, ...countsOf(selectionOf) };
    },
    ...countsOf(selectionOf),
  };
}

type SelectionOf = (range: DataInterval) => Selection;

function selectionsOf({ request, model, query }: ReadRequest): SelectionOf {
  const { tenantKey, includeEvents, excludeEvents } = request;
  const element = request.element ? { ...request.element, changes: changesOf(model) } : null;
  return ({ start, end }) => {
    const range = { start: toTimestamp(start), end: toTimestamp(end) };
    return { model, query, tenantKey, element, range, includeEvents, excludeEvents };
  };
}

type Counts = Pick<SelectPlan, 'countSql' | 'countLateSql'>;

const countsOf = (selectionOf: SelectionOf): Counts => ({
  countSql: (range, limit) => countSql(selectionOf(range), limit),
  countLateSql: (range, xmin) => countLateSql(selectionOf(range), xmin),
});

type Sends = Omit<SelectPlan, 'moment' | keyof Counts>;

function planOfKeys(read: ReadRequest, { all, width }: SentColumns): Sends {
  const { model, query, projection } = read;
  const selectionOf = selectionsOf(read);
  const columns = all.slice(0, width);
  const keys = keyColumnsOf(model, query, columns);
  return {
    columns: keys,
    projection,
    hidden: [],
    keys: null,
    copySql: (range) => copyKeysSql(selectionOf(range), keys),
    explainSql: (range, runs) => explainSql(selectionOf(range), columns, runs),
    ...(model.intervalColumn !== null && {
      elsewhereSql: (range: DataInterval, wanted: readonly KeyTexts[]) =>
        elsewhereSql(selectionOf(range), keys, wanted),
    }),
  };
}

function planOfRows(read: ReadRequest, { all, width }: SentColumns): Sends {
  const { model, query, projection } = read;
  const selectionOf = selectionsOf(read);
  const columns = all.slice(0, width);
  const hiddenKeys = hiddenKeysOf(read);
  const hidden = hiddenKeys.map((name, index) => ({ ...(all[width + index] as Column), name }));
  const places = model.keyColumns.map((key) => {
    const shown = outputIndexOf(key, model, query);
    return shown >= 0 ? shown : width + hiddenKeys.indexOf(key);
  });
  const keyColumns = model.keyColumns.map((name, index) => {
    return { ...(all[places[index] as number] as Column), name };
  });
  return {
    columns,
    projection,
    hidden,
    keys: {
      places,
      columns: keyColumns,
      copySql: (range) => copyKeySetSql(selectionOf(range), keyColumns),
    },
    ...(read.request.element && {
      deletes: {
        columns: [...keyColumns, versionColumnOf(columns)],
        copySqls: (range: DataInterval) => copyDeletesSqls(selectionOf(range), keyColumns),
        keysSqls: (keys: readonly KeyTexts[]) => [
          copyGivenSql([...keyColumns, versionColumnOf(columns)], keys),
        ],
      },
    }),
    copySql: (range) => copySql(selectionOf(range), columns, hidden),
    explainSql: (range, runs) => explainSql(selectionOf(range), columns, runs),
  };
}

/** Keys alone have no types that a reader sees. */
function usedBy(
  { select }: SourceRequest,
  model: Model,
  query: ParsedQuery | null,
): RequestPlan['used'] {
  const columns = select === 'keys' ? [] : usedColumns(model, query);
  const isShown = query === null || columns.length === 0;
  return { columns, describeSql: isShown ? null : describeSql(model, selectionOfColumns(columns)) };
}

const selectionOfColumns = (columns: readonly ModelColumn[]): ParsedQuery => {
  const outputs = columns.map(
    ({ name }): Output => ({ name, expression: { kind: 'column', name } }),
  );
  return { outputs, where: null, star: false, limits: new Map() };
};

export function readRelationOf(model: Model): ReadRelation {
  const callsFunctions = model.columns.some(({ expression }) => namesObjects(expression ?? ''));
  const isFiltered = model.rowSecurity === 'filtered';
  const { schema, name } = model.relation;
  const { tenantColumn } = model;
  return { schema, table: name, name: relationOf(model), tenantColumn, isFiltered, callsFunctions };
}

/** Says whether an expression names something with its schema, such as a function. Only built-in ones have none. */
const namesObjects = (expression: string): boolean =>
  /[\w"]\s*\.\s*["\p{L}_]/u.test(expression.replace(/\bpg_catalog\s*\.\s*/gi, ''));

function projectionOf(model: Model, query: ParsedQuery | null): Projection {
  const outputs = outputsOf(model, query);
  const problem = describeComputed(outputs);
  if (problem !== null) throw new SluiceError('query.invalid', problem);
  const { intervalColumn, keyColumns, tenantColumn } = model;
  const names = new Set(model.columns.map(({ name }) => name));
  const fixed = [
    ...keyColumns,
    tenantColumn,
    ...changeColumnNames,
    intervalColumn ?? tenantColumn,
  ].filter((name) => names.has(name));
  return {
    outputs: outputs.flatMap(({ name, expression }): Projection['outputs'] => {
      if (expression.kind === 'column') return [{ name, column: expression.name, path: [] }];
      if (expression.kind !== 'json') return [];
      return [{ name, column: expression.column, path: expression.path }];
    }),
    keyColumns: keyColumns.filter((name) => names.has(name)),
    fixedColumns: [...new Set(fixed)],
  };
}

/** Characters of the queries that are kept, of all models together. A query's tree takes about 50 times that. */
const keptCharacters = 200_000;

/** Models and rules may have changed since they were allowed; they are the same as long as the process lives. */
function queryReader(): (text: string, model: Model) => ParsedQuery {
  const cache = new BoundedMap<string, ParsedQuery>(keptCharacters);
  return (text, model) => {
    const key = JSON.stringify([model.name, text]);
    const cached = cache.get(key);
    if (cached) return cached;
    const result = parseQuery(text, model);
    if (!('ok' in result)) throw new SluiceError('query.invalid', result.problems[0].detail);
    cache.set(key, result.ok, key.length);
    return result.ok;
  };
}

/** The keys as the file names them, if it has each of them unchanged; else none. */
function keyColumnsOf(
  model: Model,
  query: ParsedQuery | null,
  columns: readonly Column[],
): readonly Column[] {
  const plain = new Set(
    model.columns.filter((column) => !column.expression).map(({ name }) => name),
  );
  const outputs = outputsOf(model, query);
  const keys = model.keyColumns.flatMap((key) => {
    const index = outputs.findIndex(
      ({ expression }) => expression.kind === 'column' && expression.name === key,
    );
    const column = columns[index];
    return column && plain.has(key) ? [column] : [];
  });
  return keys.length === model.keyColumns.length ? keys : [];
}

interface ReadRequest {
  readonly request: SourceRequest;
  readonly model: Model;
  readonly query: ParsedQuery | null;
  readonly projection: Projection | null;
}

/** Keys of the model that the rows do not show, and that are sent beside them. */
const hiddenKeysOf = ({ request, model, query }: ReadRequest): readonly string[] =>
  request.select === 'keys'
    ? []
    : model.keyColumns.filter((key) => outputIndexOf(key, model, query) < 0);

function outputIndexOf(key: string, model: Model, query: ParsedQuery | null): number {
  const isPlain = model.columns.some((column) => column.name === key && !column.expression);
  if (!isPlain) return -1;
  return outputsOf(model, query).findIndex(
    ({ expression }) => expression.kind === 'column' && expression.name === key,
  );
}

/** Each described column as it is sent: those of the rows, then hidden keys, the interval column if there is one, and the tenant's. */
interface SentColumns {
  readonly all: readonly (Column & SentColumn)[];
  readonly width: number;
}

function sentColumns(read: ReadRequest, given: readonly DescribedColumn[]): SentColumns {
  const { request, model, query } = read;
  const outputs = outputsOf(model, query);
  const sendsText = request.nested === 'text' && (request.select ?? 'rows') === 'rows';
  const all = given.map((column, index): Column & SentColumn => {
    const { name } = column;
    const expression = outputs[index]?.expression;
    const source = expression?.kind === 'column' ? expression.name : null;
    const sourceType =
      source === null ? column.sourceType : writtenType(model, source, column.sourceType);
    // Keys come as they always have: their digests are kept.
    const isKey = source !== null && model.keyColumns.includes(source);
    if (sendsText && isNested({ ...column, sourceType }) && index < outputs.length && !isKey) {
      return { name, type: 'text', sourceType, sentAs: 'text' };
    }
    return { name, type: columnTypeOf(column.typeOid), sourceType };
  });
  return { all, width: outputs.length };
}
