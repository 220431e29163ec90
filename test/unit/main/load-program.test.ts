import { expect, test } from 'vitest';
import '../../../src/main/load-program.ts';
import { freeBuffers } from '../../../src/service/admission/process-memory.ts';

test('a time limit that nothing else holds ends a wait, though garbage is collected', async () => {
  const { signal } = new AbortController();
  const ended = new Promise((resolve) => {
    AbortSignal.any([signal, AbortSignal.timeout(300)]).addEventListener('abort', resolve);
  });
  const collecting = setInterval(freeBuffers, 20);
  expect(await ended).toMatchObject({ type: 'abort' });
  clearInterval(collecting);
});
