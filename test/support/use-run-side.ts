import { openRunSide, type RunSide } from './run-side.ts';
import { useStage } from './use-stage.ts';

/** A run side that all tests of a file share. */
export const useRunSide = (...changes: Parameters<typeof openRunSide>): RunSide =>
  useStage(() => openRunSide(...changes));
