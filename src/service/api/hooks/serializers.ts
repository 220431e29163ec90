import fastify from 'fastify';
import type { Api } from '../api.ts';
import { madeLate } from '../validation/made-late.ts';

/**
 * Compiles the serializer of each answer's schema once, when the first answer of it is sent. By itself Fastify
 * compiles one for each status of each route at the start: the errors of all routes have one schema, and the paths
 * of projects and of organizations have the same answers.
 *
 * @param schemas those that answers refer to by `$id`
 * @param atOnce compiles before the server is ready; fails if a schema is not valid
 */
export async function shareSerializers(
  api: Api,
  schemas: readonly object[],
  atOnce: boolean,
): Promise<void> {
  // A server without routes of ours: only a server that has become ready has Fastify's own compiler.
  const compiling = fastify();
  for (const schema of schemas) compiling.addSchema(schema);
  compiling.get('/', { schema: { response: { 200: { type: 'null' } } } }, async () => null);
  await compiling.ready();
  const compile = compiling.serializerCompiler;
  if (!compile) throw new Error('Fastify has no compiler of serializers.');
  const serializers = new Map<string, ReturnType<typeof compile>>();
  api.setSerializerCompiler((route) => {
    const text = JSON.stringify(route.schema);
    const known = serializers.get(text);
    if (known) return known;
    const { call, makeNow } = madeLate(() => compile(route));
    if (atOnce) makeNow();
    serializers.set(text, call);
    return call;
  });
}
