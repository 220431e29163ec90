import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { FastifyPluginCallback } from 'fastify';
import type { Producer } from './producer.ts';

/**
 * The queue dashboard for operators. A run that fails is recorded in Postgres, and its job completes. A job is "failed" only if its
 * handler threw, and the next job does its work.
 * Register it under `basePath`, behind an operator's key.
 */
export function createDashboard(producer: Producer, basePath: string): FastifyPluginCallback {
  const serverAdapter = new FastifyAdapter();
  serverAdapter.setBasePath(basePath);
  createBullBoard({
    queues: producer.queues.map((queue) => new BullMQAdapter(queue)),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Sluice queues: a failed job is not a failed run' } },
  });
  return serverAdapter.registerPlugin() as FastifyPluginCallback;
}
