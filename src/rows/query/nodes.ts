import { RefusedPart } from './problem.ts';

export interface TaggedNode {
  readonly tag: string;
  readonly fields: Fields;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Common names for nodes and fields that are refused; the others are named as in the tree. */
const words: ReadonlyMap<string, string> = new Map([
  ['SubLink', 'subquery'],
  ['RangeSubselect', 'subquery in FROM'],
  ['RangeFunction', 'function in FROM'],
  ['RangeTableFunc', 'XMLTABLE'],
  ['JsonTable', 'JSON_TABLE'],
  ['RangeTableSample', 'TABLESAMPLE'],
  ['JoinExpr', 'JOIN'],
  ['ParamRef', 'parameter'],
  ['RowExpr', 'row constructor'],
  ['CollateClause', 'COLLATE'],
  ['SQLValueFunction', 'value of the session'],
  ['SetToDefault', 'DEFAULT'],
  ['GroupingFunc', 'GROUPING'],
  ['XmlExpr', 'XML expression'],
  ['XmlSerialize', 'XMLSERIALIZE'],
  ['JsonFuncExpr', 'SQL/JSON function'],
  ['JsonObjectConstructor', 'JSON_OBJECT'],
  ['JsonArrayConstructor', 'JSON_ARRAY'],
  ['JsonParseExpr', 'JSON constructor'],
  ['JsonScalarExpr', 'JSON_SCALAR'],
  ['JsonSerializeExpr', 'JSON_SERIALIZE'],
  ['JsonIsPredicate', 'IS JSON'],
  ['NamedArgExpr', 'named argument'],
  ['MergeSupportFunc', 'MERGE_ACTION'],
  ['MultiAssignRef', 'assignment'],
  ['A_Star', '*'],
  ['FuncCall.over', 'window function'],
  ['FuncCall.agg_star', 'aggregate'],
  ['FuncCall.agg_distinct', 'aggregate with DISTINCT'],
  ['FuncCall.agg_order', 'aggregate with ORDER BY'],
  ['FuncCall.agg_filter', 'aggregate with FILTER'],
  ['FuncCall.agg_within_group', 'aggregate with WITHIN GROUP'],
  ['FuncCall.func_variadic', 'VARIADIC'],
  ['TypeName.setof', 'SETOF'],
  ['TypeName.pct_type', '%TYPE'],
  ['RangeVar.catalogname', 'database name'],
  ['RangeVar.schemaname', 'schema-qualified relation'],
  ['A_Const.bsval', 'bit string'],
  ['Alias.colnames', 'column aliases'],
  ['ResTarget.indirection', 'indirection'],
  ['A_Indices.is_slice', 'array slice'],
  ['A_Indices.lidx', 'array slice'],
]);

export function wordsFor(name: string): string {
  return words.get(name) ?? name;
}

/** A node of an unusual shape is refused. */
export function untag(node: unknown, offset: number): TaggedNode {
  const entries = isFields(node) ? Object.entries(node) : [];
  const [entry] = entries;
  if (!entry || entries.length !== 1 || !isFields(entry[1])) {
    throw new RefusedPart('expression', offset, 'is not supported.');
  }
  return { tag: entry[0], fields: entry[1] };
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** In bytes; of a node without one its parent's. */
export function offsetOf(fields: Fields, parent: number): number {
  const { location } = fields;
  return typeof location === 'number' && location >= 0 ? location : parent;
}

/** Another field could change the meaning. */
export function onlyFields(
  { tag, fields }: TaggedNode,
  known: readonly string[],
  offset: number,
): void {
  for (const name of Object.keys(fields)) {
    if (name === 'location' || known.includes(name)) continue;
    const construct = wordsFor(`${tag}.${name}`);
    throw new RefusedPart(construct, offset, 'is not supported.');
  }
}

export function namesIn(list: unknown): readonly (string | null)[] {
  return listOf(list).map((entry) => {
    const text = isFields(entry) && isFields(entry.String) ? (entry.String.sval ?? '') : null;
    return typeof text === 'string' ? text : null;
  });
}

export function firstOffset(node: unknown): number | null {
  if (Array.isArray(node)) {
    return node.reduce<number | null>((found, part) => found ?? firstOffset(part), null);
  }
  if (!isFields(node)) return null;
  if (typeof node.location === 'number' && node.location >= 0) return node.location;
  return firstOffset(Object.values(node));
}
