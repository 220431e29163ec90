import type { QueueConnection } from '../queue/connection.ts';

/** What is wrong with the queue, in words for any user; null if nothing is. */
export async function findQueueFault(queues: QueueConnection): Promise<string | null> {
  try {
    const [fault] = await queues.inspect();
    return fault ?? null;
  } catch {
    return 'the queue is unreachable; work is recorded and starts later';
  }
}
