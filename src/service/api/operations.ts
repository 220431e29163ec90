import { type TProperties, type TSchema, Type } from 'typebox';
import type { Scope } from '../../foundation/security/scopes.ts';
import type { Request } from './api.ts';
import { loadBatchExport } from './batch-exports/load.ts';
import { describeOperation } from './descriptions.ts';

/** The number of requests that a preview, a test of a destination or a trial of a chain counts as. */
export const costOfTrial = 10;

/** The same exports are available under two paths: by organization and by project. */
export interface Family {
  readonly prefix: string;
  readonly tag: string;
  /** Parameters of the prefix. */
  readonly params: TProperties;
  /** An operation id that is unique across both families. */
  operation(name: string): string;
  /** Default: those of the resource. */
  readonly scopes?: { readonly read: Scope; readonly write: Scope };
}

const current = '`@current` if the key has access to exactly one.';

export const organizationFamily: Family = {
  prefix: '/api/organizations/:organization_id',
  tag: 'Batch exports of an organization',
  params: { organization_id: Type.String({ description: `The organization's id; ${current}` }) },
  operation: (name) => `${name}OfOrganization`,
};

export const projectFamily: Family = {
  prefix: '/api/projects/:project_id',
  tag: 'Batch exports of a project',
  params: { project_id: Type.String({ description: `The project's id; ${current}` }) },
  operation: (name) => name,
};

/** Notification targets of the whole installation, with the keys of operators. */
export const installationFamily: Family = {
  prefix: '/api/admin',
  tag: 'Operators',
  params: {},
  operation: (name) => `${name}OfInstallation`,
  scopes: { read: 'operator:read', write: 'operator:write' },
};

/** The operations that the key of an operator may use on each export: its state, and no row, secret or file. Each look is recorded. */
const operatorReads: ReadonlySet<string> = new Set([
  'listActivity',
  'listBackfills',
  'listBatchExportLogs',
  'listBatchExportRunLogs',
  'listBatchExportRuns',
  'listStatements',
  'previewSchedule',
  'retrieveBackfill',
  'retrieveBatchExport',
  'retrieveBatchExportRun',
  'retrieveCoverage',
  'retrieveErasure',
  'retrieveStatement',
  'retrieveStatementHead',
]);

type Hook = (request: Request) => Promise<void>;

interface Resource<Id extends string> {
  readonly tag: string;
  readonly family: Family;
  readonly scopes: { readonly read: Scope; readonly write: Scope };
  /** Default: the name is unique. */
  readonly operation?: (name: string) => string;
  /** Path parameters after those of the family. */
  readonly ids: Readonly<Record<Id, TSchema>>;
  /** Loads what the first id names. */
  readonly load?: (id: Id) => Hook;
}

/** The common parts of the operations of a resource. `read` and `write` return the options of a route. */
function operationsOf<Id extends string>(resource: Resource<Id>) {
  const { tag, family, scopes, operation = (name: string) => name } = resource;
  const mayOperators = (name: string) => family === projectFamily && operatorReads.has(name);
  const access =
    (scope: Scope) =>
    <Parts extends object>(name: string, summary: string, ids: readonly Id[], parts: Parts) => {
      const [first] = ids;
      const load = first && resource.load?.(first);
      const own = Object.fromEntries(ids.map((id) => [id, resource.ids[id]])) as TProperties;
      return {
        config: { scope, ...(mayOperators(name) ? { operatorsMay: true as const } : {}) },
        ...(load ? { onRequest: load } : {}),
        schema: {
          tags: [tag],
          operationId: operation(name),
          summary,
          ...describeOperation(name),
          params: Type.Object({ ...family.params, ...own }),
          ...parts,
        },
      };
    };
  return { read: access(scopes.read), write: access(scopes.write) };
}

const exportScopes = { read: 'batch_export:read', write: 'batch_export:write' } as const;
const uuid = (description: string) => Type.String({ format: 'uuid', description });

const exportIds = {
  id: uuid('Identifier of the record.'),
  batch_export_id: uuid('Identifier of the batch export.'),
  run_id: uuid('Identifier of the run.'),
  request: uuid('Identifier of the request to erase.'),
  number: Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'Number of the statement.',
  }),
};

/** The same operation; its answers are compressed. */
export function compressed<T extends { readonly config: object }>(operation: T) {
  return { ...operation, config: { ...operation.config, compresses: true as const } };
}

/** Operations on exports and their records; the first id of a path is the export's. */
export function exportOperations(family: Family) {
  const { tag, operation } = family;
  return operationsOf({
    ...{ tag, family, operation, scopes: exportScopes, ids: exportIds },
    load: loadBatchExport,
  });
}

const notificationIds = {
  id: uuid('Identifier of the notification target.'),
  delivery_id: uuid('Identifier of the delivery.'),
};

/** Operations on notification targets. They follow the exports, and so do the scopes. */
export function notificationOperations(family: Family, load: Hook) {
  const { operation, scopes = exportScopes } = family;
  return operationsOf({
    ...{ tag: 'Notifications', family, operation, scopes, ids: notificationIds },
    load: () => load,
  });
}

/** Operations on the parts of a transformation chain; their ids are integers. */
export function transformationOperations(tag: string, family: Family, id: string, load?: Hook) {
  return operationsOf({
    ...{ tag, family, scopes: { read: 'plugin:read', write: 'plugin:write' } as const },
    ids: { id: Type.Integer({ description: `Identifier of the ${id}.` }) },
    ...(load ? { load: () => load } : {}),
  });
}

/** An operation that any key may call. */
export function keyOperation<Parts extends object>(
  operationId: string,
  summary: string,
  parts: Parts,
) {
  const documented = { tags: ['The API key'], operationId, summary };
  const schema = { ...documented, ...describeOperation(operationId), ...parts };
  return { config: { scope: 'any' as const }, schema };
}
