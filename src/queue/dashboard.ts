import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { FastifyPluginCallback } from 'fastify';
import type { Producer } from './producer.ts';

/** The page on which operators watch the queues; to be registered under `basePath`, behind a key. */
export function createDashboard(producer: Producer, basePath: string): FastifyPluginCallback {
  const serverAdapter = new FastifyAdapter();
  serverAdapter.setBasePath(basePath);
  createBullBoard({
    queues: producer.queues.map((queue) => new BullMQAdapter(queue)),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Sluice queues' } },
  });
  return serverAdapter.registerPlugin() as FastifyPluginCallback;
}
