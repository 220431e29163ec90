import type { components, paths } from '../../../../dist/api-schema.d.ts';

/** Types of the API's calls, from the OpenAPI document that the build writes. */

type Schemas = components['schemas'];
type ProjectPrefix = '/api/projects/{project_id}';

export type Method = 'get' | 'post' | 'patch' | 'delete';

/** A path of the project's operations, without what is before it: `/batch_exports/{id}`. */
export type PathOf<M extends Method> = {
  [Path in keyof paths]: Path extends `${ProjectPrefix}${infer Rest}`
    ? paths[Path] extends Record<M, unknown>
      ? Rest
      : never
    : never;
}[keyof paths];

type OperationOf<
  M extends Method,
  Path extends string,
> = `${ProjectPrefix}${Path}` extends keyof paths
  ? paths[`${ProjectPrefix}${Path}`] extends Record<M, infer Operation>
    ? Operation
    : never
  : never;

/** The JSON of a successful answer; null if it has none. */
export type AnswerOf<M extends Method, Path extends string> =
  OperationOf<M, Path> extends { responses: infer Responses }
    ? Responses[keyof Responses & (200 | 201)] extends {
        content: { readonly 'application/json': infer Json };
      }
      ? Json
      : null
    : never;

export type QueryOf<M extends Method, Path extends string> =
  OperationOf<M, Path> extends { parameters: { query?: infer Query } } ? Query : never;

type AdminPrefix = '/api/admin';

/** A path of the operators' operations, without what is before it: `/causes`. */
export type AdminPathOf<M extends Method> = {
  [Path in keyof paths]: Path extends `${AdminPrefix}${infer Rest}`
    ? paths[Path] extends Record<M, unknown>
      ? Rest
      : never
    : never;
}[keyof paths];

type AdminOperationOf<
  M extends Method,
  Path extends string,
> = `${AdminPrefix}${Path}` extends keyof paths
  ? paths[`${AdminPrefix}${Path}`] extends Record<M, infer Operation>
    ? Operation
    : never
  : never;

export type AdminAnswerOf<M extends Method, Path extends string> =
  AdminOperationOf<M, Path> extends { responses: infer Responses }
    ? Responses[keyof Responses & (200 | 201)] extends {
        content: { readonly 'application/json': infer Json };
      }
      ? Json
      : null
    : never;

export type AdminQueryOf<M extends Method, Path extends string> =
  AdminOperationOf<M, Path> extends { parameters: { query?: infer Query } } ? Query : never;

export type NotificationTarget = Schemas['NotificationTarget'];
export type Cause = Schemas['Cause'];
export type OperatorTask = Schemas['OperatorTask'];
export type OperatorExport = Schemas['OperatorExport'];
export type BatchExport = Schemas['BatchExport'];
/** What an export needs; each has one. The service decides it. */
export type Health = BatchExport['health'];
export type Run = Schemas['BatchExportRun'];
export type Backfill = Schemas['Backfill'];
export type LogEntry = Schemas['BatchExportLog'];
export type DestinationTest = Schemas['DestinationTest'];
export type Plugin = Schemas['Plugin'];
/** What the key may do, and its projects. */
export type Me = Schemas['Me'];
export type Readiness = paths['/readyz']['get']['responses'][200]['content']['application/json'];
