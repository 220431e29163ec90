import { readdirSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestDatabase } from '../support/database.ts';
import { findFreePort } from '../support/free-port.ts';
import { startBundled, type TestProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

/** A stranger without a key, at each port of API and worker: pipelined requests whose answers are not read. */

const isLinux = process.platform === 'linux';
const database = useStage(createTestDatabase);
let api: TestProcess;
let worker: TestProcess;
let ports: { readonly api: number; readonly apiMetrics: number; readonly workerMetrics: number };

beforeAll(async () => {
  const [ofApi, apiMetrics] = [await findFreePort(), await findFreePort()];
  const workerMetrics = await findFreePort();
  ports = { api: ofApi, apiMetrics, workerMetrics };
  const env = { DATABASE_URL: database.url, REDIS_URL: '' };
  api = startBundled('main/api.js', [], {
    env: { ...env, PORT: String(ofApi), METRICS_PORT: String(apiMetrics) },
  });
  await api.waitForLine(/^ready /);
  worker = startBundled('main/worker.js', [], {
    env: { ...env, WORKER_PORT: String(workerMetrics) },
  });
  await until(() => worker.output().includes('worker started'));
});
afterAll(async () => {
  for (const process of [api, worker]) process?.kill();
  await Promise.all([api, worker].map((process) => process?.waitForExit()));
});

const memoryOf = (pid: number) =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
const filesOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

function askWithoutReading(port: number, request: string): Socket {
  const socket = connect(port, '127.0.0.1', () => {
    socket.pause();
    socket.write(`${request}\r\n`.repeat(1_000));
  });
  return socket.on('error', () => {});
}

/** A file of the operators' page. */
async function findAsset(): Promise<string> {
  const page = await fetch(`http://127.0.0.1:${ports.api}/console/`);
  return /\/console\/assets\/[\w.-]+\.js/.exec(await page.text())?.[0] ?? expect.fail();
}

type Answers = [
  role: 'api' | 'worker',
  port: keyof typeof ports,
  path: string,
  method?: string,
  headers?: string,
];

/** Of a file, a page, a route, metrics, an upgrade, and a body that never ends. */
const answers: readonly Answers[] = [
  ['api', 'api', '/api/docs/static/swagger-ui-bundle.js'],
  ['api', 'api', 'asset'],
  ['api', 'api', '/api/projects/1/batch_exports'],
  ['worker', 'workerMetrics', '/metrics'],
  ['api', 'api', '/api/openapi.json', 'GET', 'connection: upgrade\r\nupgrade: websocket\r\n'],
  ['api', 'api', '/nowhere', 'POST', 'transfer-encoding: chunked\r\n'],
  ['api', 'api', '/api/openapi.json'],
  ['api', 'api', '/readyz'],
  ['api', 'apiMetrics', '/metrics'],
  ['api', 'api', '/nowhere', 'HEAD', ''],
  ['api', 'api', '/api/openapi.json', 'HEAD', ''],
  ['api', 'api', '/api/openapi.json', 'OPTIONS', ''],
  ['api', 'api', '/api/openapi.json', 'GET', 'expect: nothing\r\n'],
  ['api', 'api', '/nowhere', 'POST', 'expect: 100-continue\r\ncontent-length: 5\r\n'],
];

test.runIf(isLinux).each(answers)(
  '%s: unread answers at the port %s cost little: %s',
  async (role, portName, asked, method = 'GET', headers = '') => {
    const { pid } = role === 'api' ? api : worker;
    const port = ports[portName];
    const path = asked === 'asset' ? await findAsset() : asked;
    const text = `${method} ${path} HTTP/1.1\r\nHost: x\r\n${headers}`;
    const ask = async () => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      await answer.arrayBuffer();
      return answer.status;
    };
    const status = await ask();
    const [memory, files] = [memoryOf(pid), filesOf(pid)];
    const sockets = Array.from({ length: 10 }, () => askWithoutReading(port, text));
    let most = 0;
    // While they are open, others are answered, and their memory is bounded.
    for (let turn = 0; turn < 20; turn += 1) {
      expect(await ask()).toBe(status);
      most = Math.max(most, memoryOf(pid) - memory);
    }
    expect(most).toBeLessThan(96);
    for (const socket of sockets) socket.destroy();
    await until(() => filesOf(pid) <= files + 5, {
      message: () => `${filesOf(pid)} files are open`,
    });
  },
);
