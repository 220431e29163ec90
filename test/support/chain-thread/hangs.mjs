import { parentPort } from 'node:worker_threads';

/** A thread that never answers and is busy: nothing but an end from outside stops it. */
parentPort.on('message', () => {
  for (;;);
});
