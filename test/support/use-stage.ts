import type { Server as HttpServer } from 'node:http';
import type { Server } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { listen } from './free-port.ts';

/** What a test opens, and ends by one of these. */
interface Ends {
  stop?(): unknown;
  close?(): unknown;
  drop?(): unknown;
}

const end = (stage: Ends): unknown => stage.stop?.() ?? stage.close?.() ?? stage.drop?.();

/** A stage that the tests of a file or of a group share. It has its properties once they begin. */
export function useStage<Stage extends Ends>(open: () => Promise<Stage>): Stage {
  const stage = {} as Stage;
  beforeAll(async () => void Object.assign(stage, await open()));
  afterAll(() => end(stage));
  return stage;
}

/** The same for each test anew. */
export function useEach<Stage extends Ends>(open: () => Promise<Stage>): Stage {
  const stage = {} as Stage;
  beforeEach(async () => void Object.assign(stage, await open()));
  afterEach(() => end(stage));
  return stage;
}

/** What ends with the test that opened it. */
export async function inTest<Stage extends Ends>(opening: Promise<Stage>): Promise<Stage> {
  const stage = await opening;
  onTestFinished(async () => void (await end(stage)));
  return stage;
}

/** A server that ends with the test. @returns its port */
export async function listenInTest(server: Server | HttpServer): Promise<number> {
  const port = await listen(server);
  onTestFinished(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  return port;
}
