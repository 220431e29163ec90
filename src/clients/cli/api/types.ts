import type { components, paths } from '../../../../dist/api-schema.d.ts';

/** Types of the API's calls, from the OpenAPI document that the build writes. */

type Schemas = components['schemas'];
type OfProject = '/api/projects/{project_id}/';

export type Method = 'get' | 'post' | 'patch' | 'delete';

/** A path of the API, or what follows the project in it: `batch_exports/{id}`. */
export type PathOf<M extends Method> = {
  [Path in keyof paths]: paths[Path] extends Record<M, unknown>
    ? Path | (Path extends `${OfProject}${infer Rest}` ? Rest : never)
    : never;
}[keyof paths];

type OperationOf<M extends Method, Path extends string> =
  | OperationAt<M, Path>
  | OperationAt<M, `${OfProject}${Path}`>;

type OperationAt<M extends Method, Path> = Path extends keyof paths
  ? paths[Path] extends Record<M, infer Operation>
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
export type Readiness = paths['/readyz']['get']['responses'][200]['content']['application/json'];
