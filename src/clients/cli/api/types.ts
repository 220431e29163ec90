import type { components, paths } from '../../../../dist/api-schema.d.ts';

/** Types of the API's calls, from the OpenAPI document that the build writes. */

type Schemas = components['schemas'];
type ProjectPrefix = '/api/projects/{project_id}';

export type Method = 'get' | 'post' | 'patch' | 'delete';

/** A path of the operations below a prefix, without what is before it: `/batch_exports/{id}`. */
export type PathOf<M extends Method, Prefix extends string = ProjectPrefix> = {
  [Path in keyof paths]: Path extends `${Prefix}${infer Rest}`
    ? paths[Path] extends Record<M, unknown>
      ? Rest
      : never
    : never;
}[keyof paths];

type OperationOf<
  M extends Method,
  Path extends string,
  Prefix extends string,
> = `${Prefix}${Path}` extends keyof paths
  ? paths[`${Prefix}${Path}`] extends Record<M, infer Operation>
    ? Operation
    : never
  : never;

/** The JSON of a successful answer; null if it has none. */
export type AnswerOf<M extends Method, Path extends string, Prefix extends string = ProjectPrefix> =
  OperationOf<M, Path, Prefix> extends { responses: infer Responses }
    ? Responses[keyof Responses & (200 | 201)] extends {
        content: { readonly 'application/json': infer Json };
      }
      ? Json
      : null
    : never;

export type QueryOf<M extends Method, Path extends string, Prefix extends string = ProjectPrefix> =
  OperationOf<M, Path, Prefix> extends { parameters: { query?: infer Query } } ? Query : never;

export type AdminPrefix = '/api/admin';

export type NotificationTarget = Schemas['NotificationTarget'];
export type NotificationDelivery = Schemas['NotificationDelivery'];
export type Cause = Schemas['Cause'];
export type OperatorExport = Schemas['OperatorExport'];
export type BatchExport = Schemas['BatchExport'];
/** What an export needs; each has one. The service decides it. */
export type Health = BatchExport['health'];
export type Run = Schemas['BatchExportRun'];
export type Backfill = Schemas['Backfill'];
export type LogEntry = Schemas['BatchExportLog'];
export type DestinationTest = Schemas['DestinationTest'];
export type Plugin = Schemas['Plugin'];
export type Capabilities = Schemas['Capabilities'];
/** What the key may do, and its projects. */
export type Me = Schemas['Me'];
export type Readiness = paths['/readyz']['get']['responses'][200]['content']['application/json'];
