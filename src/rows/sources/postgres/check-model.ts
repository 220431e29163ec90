import type pg from 'pg';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { Model } from '../../../foundation/domain/model.ts';
import type { ModelTenant } from '../../../foundation/domain/tenant-key.ts';
import { type DataInterval, toTimestamp } from '../../../foundation/domain/time.ts';
import { quoteName, quoteNameIfNeeded, quoteText } from '../../query/print.ts';
import { describeSql, explainSql, relationOf } from '../../query/select.ts';
import { inSnapshot } from './in-snapshot.ts';
import { findRelation, hasUniqueKey, type Relation } from './catalog.ts';
import { findChangeWarnings } from './check-changes.ts';
import { columnTypeOf } from './column-types.ts';
import { describeColumns, query } from './connection.ts';
import { findDeniedRights } from './denied-right.ts';
import { describeForOperator, toSourceError } from './errors.ts';
import { describeIntervalColumn } from './explain.ts';
import { planModels, readRelationOf } from './plan.ts';
import { createPostgresSource, type PostgresSourceOptions } from './postgres-source.ts';
import { findRefusal } from './refusal.ts';
import { describeTypeChange, describeTypeFault, findTypeChanges } from './schema-changes.ts';
import { judgeTenantColumn, type ModelFinding } from './tenant-column.ts';

export interface ModelReport {
  readonly findings: readonly ModelFinding[];
  readonly plan: readonly string[];
}

const options = {
  applicationName: 'sluice-check',
  connectTimeoutMs: 10_000,
  statementTimeoutMs: 30_000,
  idleTimeoutMs: 30_000,
};

const timestamptz = 1184;

type Tell = (severity: ModelFinding['severity'], detail: string) => void;

/**
 * All that is missing, may not be read, or will be slow. Reads no rows but keys without a unique index.
 * @param tenantKeys of the projects; the plan is for the last hour of the first one that has rows of this type
 * @param settling how to wait for transactions if the database is a standby
 */
export async function checkModel(
  connectionString: string,
  model: Model,
  tenantKeys: readonly string[],
  settling: Pick<
    PostgresSourceOptions,
    'primaryUrl' | 'allowUnsettledStandby' | 'addressName' | 'primaryName'
  > = {},
): Promise<ModelReport> {
  const findings: ModelFinding[] = [];
  const tell: Tell = (severity, detail) => findings.push({ severity, detail });
  const signal = new AbortController().signal;
  let plan: readonly string[] = [];
  let tenantKey = tenantKeys[0] ?? '1';
  let isUnique = true;
  let isThere = true;
  const { addressName } = settling;
  const address = { ...options, connectionString, addressName };
  try {
    await inSnapshot(address, tenantKey, null, signal, async (client) => {
      const relation = await findRelation(client, model, signal);
      isThere = relation !== null;
      if (!relation) {
        const { schema, name } = model.relation;
        const detail = `The relation ${schema}.${name} does not exist. Correct the model's relation.`;
        tell('error', detail);
      } else {
        checkColumns(model, relation, tell);
        await checkRights(client, model, relation, tell);
        const tenant = relation.columns.get(model.tenantColumn);
        if (tenant) {
          const judged = judgeTenantColumn({ name: model.tenantColumn, ...tenant }, tenantKeys);
          if (judged.finding) tell(judged.finding.severity, judged.finding.detail);
          tenantKey = judged.planned ?? tenantKey;
        }
        isUnique = await checkIndexes(client, model, relation, tell);
        const warnings = await findChangeWarnings(client, model, relation, signal);
        for (const { severity, detail } of warnings) tell(severity, detail);
      }
    });
    if (!isThere) return { findings, plan };
    const isReadable = findings.every(({ severity }) => severity !== 'error');
    const source = createPostgresSource({
      ...options,
      ...settling,
      connectionString,
      plan: planModels([model]),
    });
    for (const { severity, detail } of (await source.inspect(signal)).findings) {
      tell(severity, detail);
    }
    if (isReadable && model.changes) {
      await source.readSequence(model.name, tenantKey, signal);
      const refuse = (client: pg.Client) => refuseRepeatedKey(client, model, signal);
      if (!isUnique) await inSnapshot(address, tenantKey, null, signal, refuse);
    }
    const isDenied = findings.some(({ detail }) => detail.includes('GRANT '));
    // One whole look, as a run settles: so the check meets whatever a run meets there.
    const past = { start: 0, end: 1 };
    const hasErrors = findings.some(({ severity }) => severity === 'error');
    await source.settle(past, signal, { patienceMs: 0 }).catch((error: unknown) => {
      if (!hasErrors) throw error;
    });
    // It would only say the first of the rights again.
    if (isDenied) return { findings, plan };
    const whole = model.intervalColumn === null;
    const tryRow = () => source.tryRow(model.name, tenantKey, true, signal, whole);
    if (isReadable) {
      plan = await checkStatement(connectionString, model, tenantKey, tell).catch(async (error) => {
        await tryRow();
        throw error;
      });
    }
    for (const warning of await tryRow()) {
      if (!findings.some(({ detail }) => detail === warning)) tell('warning', warning);
    }
  } catch (error) {
    // A run says it too, in the same words.
    const { detail = null } = toSourceError(error);
    const isKnown = detail !== null && findings.some((finding) => finding.detail.includes(detail));
    if (!isKnown) tell('error', describeForOperator(toSourceError(error)));
  }
  return { findings, plan };
}

/** Looks at the first rows only: a run looks at all. @throws SluiceError `model.key_not_unique` */
async function refuseRepeatedKey(client: pg.Client, model: Model, signal: AbortSignal) {
  const columns = [model.tenantColumn, ...model.keyColumns].map(quoteName).join(', ');
  const rows = `SELECT ${columns} FROM ${relationOf(model)} LIMIT 1000000`;
  const sql = `SELECT true AS twice FROM (${rows}) AS "first" GROUP BY ${columns} HAVING pg_catalog.count(*) > 1 LIMIT 1`;
  if ((await query(client, sql, signal)).length === 0) return;
  const keys = model.keyColumns.join(', ');
  const remedy = `Name key_columns that a unique index covers, together with ${model.tenantColumn}`;
  throw new SluiceError('model.key_not_unique', `two rows have the same ${keys}. ${remedy}`);
}

function checkColumns(model: Model, relation: Relation, tell: Tell): void {
  const names = namesOf(model);
  const missing = names.filter((name) => !relation.columns.has(name));
  if (missing.length > 0) {
    tell('error', `The relation has no column ${missing.join(', ')}. Correct the names.`);
  }
  const { intervalColumn, tenantColumn } = model;
  const interval = intervalColumn === null ? undefined : relation.columns.get(intervalColumn);
  if (intervalColumn !== null && interval && interval.baseType !== timestamptz) {
    const { typeName: sourceType, baseType } = interval;
    const column = { name: intervalColumn, sourceType, type: columnTypeOf(baseType) };
    const warning = describeIntervalColumn(column);
    const refused = `${intervalColumn} is ${sourceType}, not timestamp with time zone. Name a column of that type.`;
    tell(warning === null ? 'error' : 'warning', warning ?? refused);
  }
  for (const name of new Set([tenantColumn, intervalColumn ?? tenantColumn])) {
    if (relation.isTable && relation.columns.get(name)?.nullable) {
      const detail = `${name} may be null, and rows with null are never exported. Make it NOT NULL.`;
      tell('warning', detail);
    }
  }
}

/** The columns of the relation that a run reads, but for those of expressions. */
function namesOf(model: Model): readonly string[] {
  const plain = model.columns.filter(({ expression }) => expression === null);
  const used = [
    model.tenantColumn,
    model.intervalColumn,
    ...model.keyColumns,
    model.eventColumn,
    ...plain.map(({ name }) => name),
  ];
  return [...new Set(used)].filter((name) => name !== null);
}

/** Reports every missing right at once: of the role, and of the owners of views. */
async function checkRights(
  client: pg.Client,
  model: Model,
  relation: Relation,
  tell: Tell,
): Promise<void> {
  const signal = new AbortController().signal;
  const hidden = namesOf(model).filter((name) => relation.columns.get(name)?.mayRead === false);
  if (hidden.length > 0 || !relation.mayUseSchema) {
    const [me] = await query<{ role: string }>(client, 'SELECT current_user AS role', signal);
    const role = quoteNameIfNeeded(me?.role ?? '');
    const schema = quoteNameIfNeeded(model.relation.schema);
    const table = `${schema}.${quoteNameIfNeeded(model.relation.name)}`;
    const grants = [
      ...(relation.mayUseSchema ? [] : [`GRANT USAGE ON SCHEMA ${schema} TO ${role}`]),
      ...(hidden.length > 0 ? [`GRANT SELECT ON ${table} TO ${role}`] : []),
    ];
    const what = hidden.join(', ') || 'the relation';
    tell('error', `The role may not read ${what}. ${grants.join('; ')}.`);
  }
  // The server finds no relation by its name in a schema that the role may not use.
  if (!relation.mayUseSchema) return;
  const denied = await findDeniedRights(client, readRelationOf(model), signal);
  for (const { reader, view, grant } of denied) {
    if (view === null) continue;
    const detail = `The role ${reader}, with whose rights the view ${view} reads, may not read all of it. ${grant}.`;
    tell('error', detail);
  }
}

async function checkIndexes(
  client: pg.Client,
  model: Model,
  relation: Relation,
  tell: Tell,
): Promise<boolean> {
  const columns = [...model.keyColumns, model.tenantColumn];
  const { holdsRows, hasHeirs, partitionKey } = relation;
  if (holdsRows && !hasHeirs && (await hasUniqueKey(client, relation.oid, columns))) return true;
  const keys = model.keyColumns.join(', ');
  const advice = hasHeirs
    ? ' Tables inherit from it, and an index covers the rows of one table only.'
    : partitionKey !== null
      ? ` The table is partitioned by ${partitionKey}, and PostgreSQL takes no unique index without these columns. Add one that has them too; if key_columns lacks them, name them there.`
      : holdsRows
        ? ' Add a unique index, or name the key.'
        : '';
  tell('warning', `No unique index covers ${keys} within a project.${advice}`);
  return false;
}

/** Describes and plans the statement that an export runs. @returns the steps of the plan */
async function checkStatement(
  connectionString: string,
  model: Model,
  tenantKey: string,
  tell: Tell,
): Promise<readonly string[]> {
  const signal = new AbortController().signal;
  const relation = readRelationOf(model);
  const address = { ...options, connectionString };
  return inSnapshot(address, tenantKey, relation, signal, async (client) => {
    const refusal = await findRefusal(client, relation, signal);
    if (refusal) tell('error', `${refusal.detail}.`);
    const described = await describeColumns(client, describeSql(model, null), signal);
    for (const change of await findTypeChanges(client, model.columns, described, signal)) {
      const fault = describeTypeFault(model, change);
      if (fault === null) tell('warning', describeTypeChange(change));
      else tell('error', `${fault}. Correct type, or set on_schema_change to follow.`);
    }
    const hour = `SELECT (extract(epoch FROM date_trunc('hour', now())) * 1000)::int8 AS ms`;
    const [clock] = await query<{ ms: string }>(client, hour, signal);
    const end = Number(clock?.ms);
    const interval: DataInterval = { start: end - 3_600_000, end };
    const range = { start: toTimestamp(interval.start), end: toTimestamp(interval.end) };
    const columns = described.map(({ name, typeOid }) => ({ name, type: columnTypeOf(typeOid) }));
    const all = { query: null, includeEvents: null, excludeEvents: null };
    const sql = explainSql({ ...all, model, tenantKey, range }, columns);
    type Explained = { 'QUERY PLAN': readonly [{ readonly Plan: PlanNode }] };
    const [row] = await query<Explained>(client, sql, signal);
    return row ? judgePlan(model, row['QUERY PLAN'][0].Plan, tell) : [];
  });
}

function judgePlan(model: Model, root: PlanNode, tell: Tell): readonly string[] {
  const { steps, wholeRelations, conditions } = readPlan(root);
  const columns = [model.tenantColumn, model.intervalColumn ?? model.keyColumns].flat().join(', ');
  const advice = `Create an index on (${columns})`;
  if (model.intervalColumn === null) {
    if (wholeRelations.length > 0 || conditions.some((condition) => !/[^<>]=/.test(condition))) {
      const reader = model.changes ? 'Each snapshot, and each base of changes,' : 'Every run';
      tell('warning', `${reader} reads the rows of all projects. ${advice}.`);
    }
  } else if (steps.length === 0) {
    const detail =
      'No partition contains the last hour, so the query plan does not show whether an index is missing.';
    tell('warning', detail);
  } else if (wholeRelations.length > 0) {
    const relations = [...new Set(wholeRelations)].join(', ');
    tell('warning', `Every run reads all of ${relations}. ${advice}.`);
  } else if (conditions.some((condition) => !/[<>]/.test(condition))) {
    tell('warning', `Every run reads more than its interval. ${advice}.`);
  } else if (conditions.some((condition) => !/[^<>]=/.test(condition))) {
    tell('warning', `Every run reads the rows of all projects. ${advice}.`);
  }
  return steps;
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly Plans?: readonly PlanNode[];
}

function readPlan(root: PlanNode) {
  const nodes = flatten(root).filter((node) => node['Relation Name'] ?? node['Index Name']);
  const steps = nodes.map((node) => {
    const index = node['Index Name'];
    return `${node['Node Type']} ${index ? `using ${index}` : `on ${node['Relation Name']}`}`;
  });
  return {
    /** Lines such as `Index Scan using orders_by_time`. */
    steps: [...new Set(steps)],
    wholeRelations: nodes
      .filter((node) => /Seq Scan$/.test(node['Node Type']))
      .map((node) => node['Relation Name'] ?? ''),
    /** Of each index use; empty if it walks the whole index. */
    conditions: nodes
      .filter((node) => node['Index Name'] !== undefined)
      .map((node) => node['Index Cond'] ?? ''),
  };
}

function flatten(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}

const quick = {
  ...options,
  connectTimeoutMs: 5_000,
  statementTimeoutMs: 5_000,
  idleTimeoutMs: 10_000,
};

export async function findTenant(
  connectionString: string,
  model: Model,
  tenantKey: string,
  signal: AbortSignal,
): Promise<ModelTenant | null> {
  const address = { ...quick, connectionString };
  const column = model.tenantColumn;
  const tenantColumn = await inSnapshot(address, tenantKey, null, signal, async (client) =>
    (await findRelation(client, model, signal))?.columns.get(column),
  );
  if (!tenantColumn) return null;
  const { finding } = judgeTenantColumn({ name: column, ...tenantColumn }, [tenantKey]);
  const facts = { model: model.name, column, type: tenantColumn.typeName };
  if (finding !== null) return { ...facts, isPossible: false, hasRows: false };
  const sql = `SELECT 1 AS one FROM ${relationOf(model)} AS source
    WHERE source.${quoteName(column)} = ${quoteText(tenantKey)} LIMIT 1`;
  const rows = await inSnapshot(address, tenantKey, readRelationOf(model), signal, (client) =>
    query(client, sql, signal),
  ).catch((error: unknown) => {
    if (toSourceError(error).code === 'source.timeout') return null;
    throw error;
  });
  return { ...facts, isPossible: true, hasRows: rows && rows.length > 0 };
}
