import type { Queue } from 'bullmq';

/** Asks for a sweep if none waits: by itself a worker sweeps every five seconds. */
export async function sweepSoon(queues: readonly Queue[]): Promise<void> {
  const control = queues.find(({ name }) => name === 'sluice-control');
  if (!control) throw new Error('no queue carries the sweep');
  await control.add(
    'sweep',
    {},
    { deduplication: { id: 'sweep-soon' }, removeOnComplete: true, removeOnFail: true },
  );
}
