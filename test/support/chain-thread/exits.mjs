import { parentPort } from 'node:worker_threads';

/** A thread that ends at its second block, as if something had ended it. */
let blocks = 0;
parentPort.on('message', () => {
  blocks += 1;
  if (blocks === 2) process.exit(1);
});
