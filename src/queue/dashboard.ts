import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { FastifyAdapter } from '@bull-board/fastify';
import type { FastifyPluginCallback } from 'fastify';
import type { Producer } from './producer.ts';

/** The queue dashboard for operators. Register it under `basePath`, behind an admin key. */
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
