import { Type } from 'typebox';
import { shareReadiness } from '../../use-cases/installation/check-readiness.ts';
import type { Api } from '../api.ts';
import { only } from '../errors.ts';
import { type OperatorAccess, requireOperator } from '../hooks/operators.ts';
import type { ApiOptions } from '../options.ts';
import { Text } from '../shapes.ts';

const Live = Type.Object({ status: Type.Literal('ok') });

const Ready = Type.Object({
  status: Type.Enum(['ok', 'degraded', 'unavailable']),
  checks: Type.Object({
    postgres: Text('`ok`, or what is wrong.'),
    queue: Text('`ok`, or what is wrong.'),
    source: Type.Optional(
      Text('`ok`, or why models cannot be exported or their intervals cannot be settled.'),
    ),
    workers: Type.Optional(Text('`ok`, or why no run is executed.')),
    temporary_folder: Type.Optional(
      Text('`ok`, or why no file can be made in the folder of TMPDIR.'),
    ),
    era: Text('`ok`, or why no run starts until an operator accepts the database.'),
  }),
});

/** For a query with a NUL or half a surrogate pair. */
const malformedOnly = only(400);

/**
 * For probes, scrapers and operators. Probes need no key, so they must not show anything of a tenant. Metrics need an
 * operator's key here; METRICS_PORT serves them without one.
 */
export function healthRoutes(
  api: Api,
  { readiness: check, metrics }: Pick<ApiOptions, 'readiness' | 'metrics'>,
  operators: OperatorAccess,
): void {
  const readiness = shareReadiness(check);
  const tags = ['Operation'];

  api.get(
    '/livez',
    {
      schema: {
        tags,
        operationId: 'live',
        summary: 'Whether the process answers',
        description: 'It does not look at the database or the queue. For liveness probes.',
        security: [],
        response: { 200: Live, ...malformedOnly },
      },
    },
    async () => ({ status: 'ok' as const }),
  );

  api.get(
    '/readyz',
    {
      schema: {
        tags,
        operationId: 'ready',
        summary: 'Whether requests can be served',
        description:
          '503 if the database is down. If only the queue is down, no worker is alive, or the database was restored and not yet accepted, requests are still accepted and runs start later (200, degraded).',
        security: [],
        response: { 200: Ready, 503: Ready, ...malformedOnly },
      },
    },
    async (_request, reply) => {
      const ready = await readiness();
      return reply.code(ready.status === 'unavailable' ? 503 : 200).send(ready);
    },
  );

  api.register(async (scope: Api) => {
    requireOperator(scope, operators);
    scope.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
      reply.type(metrics.contentType);
      return metrics.metrics();
    });
  });
}
