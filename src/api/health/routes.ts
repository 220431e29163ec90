import { Type } from 'typebox';
import type { Sql } from '../../store/database.ts';
import type { Api } from '../api.ts';
import type { Deps } from '../options.ts';
import { only } from '../schemas/error.ts';

const Live = Type.Object({ status: Type.Literal('ok') });

const Ready = Type.Object({
  status: Type.Enum(['ok', 'degraded', 'unavailable']),
  checks: Type.Object({
    postgres: Type.String({ description: '`ok`, or what is wrong.' }),
    queue: Type.String({ description: '`ok`, or what is wrong.' }),
    source: Type.Optional(
      Type.String({
        description:
          '`ok`, or what keeps models from being exported or their intervals from settling.',
      }),
    ),
    era: Type.String({
      description: '`ok`, or why no run starts until an operator accepts the database.',
    }),
  }),
});

/** A query that holds what no text may. */
const malformedOnly = only(400);

/** A check that takes longer has failed. */
const patienceMs = 3_000;

/** For probes and scrapers; open to all, so nothing of a tenant is told. */
export function healthRoutes(
  api: Api,
  db: Sql,
  { queueFault, sourceFault, holdReason, metrics }: Deps,
): void {
  const tags = ['Operation'];

  api.get(
    '/livez',
    {
      schema: {
        tags,
        operationId: 'live',
        summary: 'Whether the process answers',
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
          '503 if the database is down. If only the queue is down, or the database was restored and not yet accepted, requests are still accepted and runs start later (200, degraded).',
        security: [],
        response: { 200: Ready, 503: Ready, ...malformedOnly },
      },
    },
    async (_request, reply) => {
      const [postgres, queue, era] = await Promise.all([
        faultOf(async () => {
          await db.query('select 1');
          return null;
        }),
        faultOf(queueFault),
        faultOf(holdReason),
      ]);
      const source = sourceFault?.() ?? null;
      const checks = {
        postgres: postgres ?? 'ok',
        queue: queue ?? 'ok',
        era: era ?? 'ok',
        ...(sourceFault ? { source: source ?? 'ok' } : {}),
      };
      if (postgres !== null) return reply.code(503).send({ status: 'unavailable', checks });
      const isWhole = queue === null && source === null && era === null;
      return { status: isWhole ? ('ok' as const) : ('degraded' as const), checks };
    },
  );

  api.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    reply.type(metrics.contentType);
    return metrics.metrics();
  });
}

/** What a check says is wrong; its own failure is wrong too. */
async function faultOf(check: () => Promise<string | null>): Promise<string | null> {
  const tooLate = new Promise<string>((resolve) => {
    setTimeout(resolve, patienceMs, `no answer within ${patienceMs} ms`).unref();
  });
  try {
    return await Promise.race([check(), tooLate]);
  } catch (error) {
    // Addresses and names of the inside stay inside.
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
    return `unreachable${code}`;
  }
}
