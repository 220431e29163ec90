import { type TObject, type TProperties, Type } from 'typebox';
import type { Scope } from '../../foundation/security/scopes.ts';
import type { Request } from './api.ts';
import { loadBatchExport } from './batch-exports/load.ts';
import { describeOperation } from './descriptions.ts';

/** How many requests a preview, a test of a destination or a trial of a chain counts as. */
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

type Hook = (request: Request) => Promise<void>;

interface Resource<Id extends string> {
  readonly tag: string;
  readonly scopes: { readonly read: Scope; readonly write: Scope };
  readonly operation: (name: string) => string;
  /** Path parameters: those of the prefix and `ids`. */
  readonly params: (ids: readonly Id[]) => TObject;
  /** Loads what the first id names. */
  readonly load?: (id: Id) => Hook;
}

/** What the operations of a resource have in common. `read` and `write` return the options of a route. */
export function operationsOf<Id extends string>(resource: Resource<Id>) {
  const access =
    (scope: Scope) =>
    <Parts extends object>(name: string, summary: string, ids: readonly Id[], parts: Parts) => {
      const [first] = ids;
      const load = first && resource.load?.(first);
      return {
        config: { scope },
        ...(load ? { onRequest: load } : {}),
        schema: {
          tags: [resource.tag],
          operationId: resource.operation(name),
          summary,
          ...describeOperation(name),
          params: resource.params(ids),
          ...parts,
        },
      };
    };
  return { read: access(resource.scopes.read), write: access(resource.scopes.write) };
}

const descriptions = {
  id: 'Identifier of the record.',
  batch_export_id: 'Identifier of the batch export.',
  run_id: 'Identifier of the run.',
};

/** Operations on exports and their records; the first id of a path is the export's. */
export function exportOperations(family: Family) {
  return operationsOf<keyof typeof descriptions>({
    tag: family.tag,
    scopes: { read: 'batch_export:read', write: 'batch_export:write' },
    operation: family.operation,
    params: (ids) => {
      const properties: TProperties = { ...family.params };
      for (const id of ids) {
        properties[id] = Type.String({ format: 'uuid', description: descriptions[id] });
      }
      return Type.Object(properties);
    },
    load: loadBatchExport,
  });
}

const notificationIds = {
  id: 'Identifier of the notification target.',
  delivery_id: 'Identifier of the delivery.',
};

/** Operations on notification targets. They follow the exports, and so do the scopes. */
export function notificationOperations(family: Family, load: Hook) {
  return operationsOf<keyof typeof notificationIds>({
    tag: 'Notifications',
    scopes: family.scopes ?? { read: 'batch_export:read', write: 'batch_export:write' },
    operation: family.operation,
    params: (ids) => {
      const properties: TProperties = { ...family.params };
      for (const id of ids) {
        properties[id] = Type.String({ format: 'uuid', description: notificationIds[id] });
      }
      return Type.Object(properties);
    },
    load: () => load,
  });
}

/** Operations on the projects of an organization. */
export function projectOperations(family: Family) {
  return operationsOf<never>({
    tag: 'Projects',
    scopes: { read: 'batch_export:read', write: 'batch_export:write' },
    operation: (name) => name,
    params: () => Type.Object({ ...family.params }),
  });
}

/** Operations on the parts of a transformation chain; their ids are integers. */
export function transformationOperations(tag: string, family: Family, id: string, load?: Hook) {
  const Id = Type.Integer({ description: `Identifier of the ${id}.` });
  return operationsOf<'id'>({
    tag,
    scopes: { read: 'plugin:read', write: 'plugin:write' },
    operation: (name) => name,
    params: (ids) => Type.Object({ ...family.params, ...(ids.length > 0 ? { id: Id } : {}) }),
    ...(load ? { load: () => load } : {}),
  });
}
