import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';

/** What a test opens, and ends by one of these. */
interface Ends {
  stop?(): unknown;
  close?(): unknown;
  drop?(): unknown;
}

/** A stage that the tests of a file or of a group share. It has its properties once they begin. */
export function useStage<Stage extends Ends>(open: () => Promise<Stage>): Stage {
  const stage = {} as Stage;
  beforeAll(async () => void Object.assign(stage, await open()));
  afterAll(() => stage.stop?.() ?? stage.close?.() ?? stage.drop?.());
  return stage;
}

/** The same for each test anew. */
export function useEach<Stage extends Ends>(open: () => Promise<Stage>): Stage {
  const stage = {} as Stage;
  beforeEach(async () => void Object.assign(stage, await open()));
  afterEach(() => stage.stop?.() ?? stage.close?.() ?? stage.drop?.());
  return stage;
}
