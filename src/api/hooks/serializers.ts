import fastify from 'fastify';
import type { Api } from '../api.ts';

/**
 * Compiles the serializer of each answer's schema once. By itself Fastify compiles one for each status
 * of each route, which takes most of the time of a start: the errors of all routes have one schema, and
 * the paths of projects and of organizations have the same answers.
 *
 * @param schemas those that answers refer to by `$id`
 */
export async function shareSerializers(api: Api, schemas: readonly object[]): Promise<void> {
  // A server without routes of ours: only a server that has become ready has Fastify's own compiler.
  const compiling = fastify();
  for (const schema of schemas) compiling.addSchema(schema);
  compiling.get('/', { schema: { response: { 200: { type: 'null' } } } }, async () => null);
  await compiling.ready();
  const compile = compiling.serializerCompiler;
  if (!compile) throw new Error('Fastify has no compiler of serializers.');
  const compiled = new Map<string, ReturnType<typeof compile>>();
  api.setSerializerCompiler((route) => {
    const text = JSON.stringify(route.schema);
    const serialize = compiled.get(text) ?? compile(route);
    compiled.set(text, serialize);
    return serialize;
  });
}
