import { createServer } from 'node:http';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { destinationContextOf } from '../../src/main/connectors.ts';
import { startApiBeside, useApi } from '../support/api-under-test.ts';
import { exportBody } from '../support/batch-export-bodies.ts';
import { until } from '../support/until.ts';
import { listenInTest, useStage } from '../support/use-stage.ts';

const allowing = readConfig({ ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1' });
const open = useApi({
  destinationContext: { ...destinationContextOf(allowing), stallTimeoutMs: 300 },
});
const closed = useStage(() =>
  // Create refuses such an address; this one was stored while the operator allowed it.
  startApiBeside(open, () => ({
    destinationContext: { ...destinationContextOf(readConfig({})), refusalOf: () => null },
  })),
);
type Asked = Pick<typeof closed, 'client'>;

/** A port whose connections are never answered. */
async function silentPort(): Promise<number> {
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  return listenInTest(createTcpServer((socket) => void sockets.push(socket)));
}

/** Asks again after a 503, as clients do: on a busy machine a connection may not open within the five seconds that the API waits. */
const post = ({ client }: Asked, path: string, body?: unknown) =>
  until(async () => {
    const answer = await client.post(`${open.exports}${path}`, body);
    return answer.status === 503 ? null : answer;
  });

async function stepsOf(api: Asked, endpoint: string): Promise<unknown> {
  const { destination } = exportBody();
  const config = { ...destination.config, endpoint_url: endpoint };
  const created = await post(api, '', exportBody({ destination: { ...destination, config } }));
  expect(created.status, created.text).toBe(201);
  const { status, body: tested } = await post(api, `/${created.body.id}/test`);
  expect(status).toBe(200);
  return tested.steps;
}

test('says the same of a forbidden address, a name that does not resolve, a closed port and a silent one', async () => {
  const silent = await silentPort();
  const seen = await Promise.all([
    stepsOf(closed, `http://127.0.0.1:${silent}`),
    stepsOf(closed, 'http://127.0.0.1:1'),
    stepsOf(closed, 'http://[::1]:5432'),
    stepsOf(closed, 'http://localhost:5432'),
    stepsOf(closed, 'http://postgres.invalid:5432'),
    stepsOf(open, 'http://127.0.0.1:1'),
    stepsOf(open, `http://127.0.0.1:${silent}`),
  ]);
  const [first] = seen;
  expect(first).toEqual([
    {
      step: 'address',
      passed: false,
      error: expect.stringContaining('The endpoint cannot be reached'),
      warning: null,
    },
  ]);
  for (const steps of seen) expect(steps).toEqual(first);
});

test('shows no words of the SDK if an answer cannot be read', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/xml' }).end('<List><broken');
  });
  const port = await listenInTest(server);
  const steps = JSON.stringify(await stepsOf(open, `http://127.0.0.1:${port}`));
  expect(steps).toContain('HTTP 200, but the answer to ListObjectsV2 is not XML');
  expect(steps).not.toMatch(/Deserialization|\$response|\{error\}|SDK|hidden field|at Object/i);
});
