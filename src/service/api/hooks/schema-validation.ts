import { notFound } from '../../../foundation/domain/problem.ts';
import type { Api } from '../api.ts';
import { madeLate } from '../validation/made-late.ts';
import { knowModels } from '../validation/named-model.ts';
import { createAjv, typedQuery } from '../validation/validator.ts';

/**
 * Checks bodies, queries and path parameters against the schemas of their routes. An id that its schema refuses names no record: 404.
 * A schema is compiled at the first request to its route.
 *
 * @param shared schemas that bodies refer to by `$id`
 * @param models the names of the models of this installation
 * @param atOnce compiles before the server is ready; fails if a schema is not valid
 */
export function validateWithSchemas(
  api: Api,
  shared: readonly object[],
  models: readonly string[],
  atOnce: boolean,
): void {
  const ajv = createAjv();
  knowModels(ajv, models);
  for (const schema of shared) ajv.addSchema(schema);
  api.setValidatorCompiler(({ schema, httpPart }) => {
    const isPath = httpPart === 'params';
    const { call, makeNow } = madeLate(() => {
      const validate = ajv.compile(schema as object);
      return (data: unknown) => {
        const value =
          httpPart === 'querystring' || isPath
            ? typedQuery(schema as object, data as Record<string, unknown>)
            : data;
        if (validate(value)) return { value };
        return { error: isPath ? notFound() : (validate.errors ?? []) };
      };
    });
    if (atOnce) makeNow();
    return call;
  });
}
