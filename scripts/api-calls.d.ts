/** Types of calls by method and path. A path without a leading slash is below the project: `batch_exports/{id}`. */

type OfProject = '/api/projects/{project_id}/';

export type Method = 'get' | 'post' | 'patch' | 'delete';

export type PathOf<M extends Method> = {
  [Path in keyof paths]: paths[Path] extends Record<M, unknown>
    ? Path | (Path extends `${OfProject}${infer Rest}` ? Rest : never)
    : never;
}[keyof paths];

type OperationAt<M extends Method, Path> = Path extends keyof paths
  ? paths[Path] extends Record<M, infer Operation>
    ? Operation
    : never
  : never;

type OperationOf<M extends Method, Path extends string> =
  | OperationAt<M, Path>
  | OperationAt<M, `${OfProject}${Path}`>;

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

export type BodyOf<M extends Method, Path extends string> =
  OperationOf<M, Path> extends { requestBody?: { content: { 'application/json': infer Body } } }
    ? Body
    : never;

type PathValues<Operation> = Operation extends { parameters: { path: infer Values } }
  ? Omit<Values, 'project_id' | 'organization_id'>
  : unknown;

type OrNull<Query> = { readonly [Name in keyof Query]: Query[Name] | null };

/** The parameters of the path and of the query together, besides the project and the organization; null leaves one out. */
export type ValuesOf<M extends Method, Path extends string> = PathValues<OperationOf<M, Path>> &
  (OperationOf<M, Path> extends { parameters: { query?: infer Query } }
    ? OrNull<NonNullable<Query>>
    : unknown);
