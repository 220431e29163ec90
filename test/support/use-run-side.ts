import { afterAll, beforeAll } from 'vitest';
import { openRunSide, type RunSide } from './run-side.ts';

/** A run side that all tests of a file share. It has its properties once the tests begin. */
export function useRunSide(...changes: Parameters<typeof openRunSide>): RunSide {
  const side = {} as RunSide;
  beforeAll(async () => {
    Object.assign(side, await openRunSide(...changes));
  });
  afterAll(() => side.stop?.());
  return side;
}
