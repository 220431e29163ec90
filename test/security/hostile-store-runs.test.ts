import type { IncomingMessage, ServerResponse } from 'node:http';
import { beforeAll, expect, it } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  untilEnded,
} from '../support/exported-events.ts';
import { type Answer, startHostileStore } from '../support/hostile-store.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';
import { useStage } from '../support/use-stage.ts';

/** Runs at a store that a tenant names, in real processes, beside those of another tenant. */

let answer: Answer;
const store = useStage(() => startHostileStore((request, response) => answer(request, response)));
const installation = useStage(() =>
  startInstallation({
    workers: 0,
    // Long, so that nothing but the rules of this test ends a request.
    env: { UPLOAD_STALL_SECONDS: '3600', WORKER_CONCURRENCY: '4', WORKER_SMALL_RUNS: '4' },
  }),
);
beforeAll(async () => {
  await insertEvents(installation.pool, { team: installation.tenant.projectIds[0], rows: 20 });
  await installation.startWorker();
});
/** The same installation, as another tenant sees it. */
async function otherTenant(): Promise<Installation> {
  const tenant = await installation.addTenant();
  await insertEvents(installation.pool, { team: tenant.projectIds[0], rows: 20 });
  return { ...installation, tenant, client: installation.client.withKey(tenant.key) };
}

const hostileExport = () =>
  createS3Export(installation, { config: { endpoint_url: store.endpoint } });

const isList = ({ url = '' }: IncomingMessage) => url.includes('list-type');

function refuse(response: ServerResponse, status: number, code: string): void {
  const text = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>No.</Message></Error>`;
  response.writeHead(status, { 'content-type': 'application/xml' }).end(text);
}

it('runs at a store that never answers leave a slot to other tenants, and end with their exports', async () => {
  answer = (request, response) => {
    // The store cannot be probed, so the run goes on and asks for the manifest.
    if (isList(request) || request.method === 'PUT') refuse(response, 403, 'AccessDenied');
    if (request.method === 'DELETE') response.writeHead(204).end();
  };
  const hostile = await Promise.all(Array.from({ length: 8 }, hostileExport));
  for (const id of hostile) await backfill(installation, id);
  const hanging = () => store.requests.filter((each) => each.includes('_manifest.json')).length;
  await until(() => hanging() === 3, {
    message: () => `three runs hang, not ${hanging()}: ${store.requests.join(', ')}`,
  });
  const other = await otherTenant();
  const exportId = await createS3Export(other);
  await backfill(other, exportId);
  const [run] = await untilEnded(other, exportId);
  expect(run).toMatchObject({ status: 'Completed', rows: 20 });
  expect(hanging()).toBe(3);
  for (const id of hostile) {
    await installation.client.delete(`${projectPath(installation)}/batch_exports/${id}/`);
  }
  await until(() => store.openConnections() === 0, {
    timeoutMs: 60_000,
    message: () => `no request goes on: ${store.requests.slice(-5).join('\n')}`,
  });
});

it('runs at a store that drips end with their exports, whatever it drips', async () => {
  const kinds = ['a manifest', 'an error', 'a list', 'an upload id', 'a header'] as const;
  answer = (request, response) => {
    const { method, url = '', headers } = request;
    const kind = kinds[Number(/kind-(\d)/.exec(url)?.[1] ?? 0)];
    const slowly = (status: number, text: string) => {
      response.writeHead(status, { 'content-type': 'application/xml', etag: '"tag"' });
      let at = 0;
      const timer = setInterval(() => response.write(text[at++ % text.length] ?? ''), 20);
      response.once('close', () => clearInterval(timer));
    };
    if (kind === 'a header' && method === 'GET') {
      response.socket?.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => response.socket?.write('x-a: b\r\n'), 50);
      response.socket?.once('close', () => clearInterval(timer));
      return;
    }
    if (kind === 'an error' && method === 'GET') return slowly(403, '<Error><Code>a');
    if (kind === 'a list' && url.includes('list-type')) return slowly(200, '<ListBucketResult>');
    if (kind === 'an upload id' && method === 'POST') return slowly(200, '<A><UploadId>a');
    if (method === 'DELETE') return void response.writeHead(204).end();
    if (isList(request)) return refuse(response, 403, 'AccessDenied');
    if (kind === 'a manifest' && method === 'GET') return slowly(200, '{"files": [');
    if (method === 'GET') return refuse(response, 404, 'NoSuchKey');
    if (headers['if-none-match'] !== undefined) return refuse(response, 412, 'PreconditionFailed');
    refuse(response, 403, 'AccessDenied');
  };
  const exports = await Promise.all(
    kinds.map((_, kind) =>
      createS3Export(installation, {
        // A bucket is probed once, for all exports.
        config: { endpoint_url: store.endpoint, bucket_name: `kind-${kind}` },
      }),
    ),
  );
  for (const id of exports) await backfill(installation, id);
  await until(() => store.openConnections() >= 2, {
    message: () => 'runs are being dripped at',
  });
  for (const id of exports) {
    await installation.client.delete(`${projectPath(installation)}/batch_exports/${id}/`);
  }
  await until(() => store.openConnections() === 0, {
    timeoutMs: 40_000,
    message: () => `no request goes on: ${store.requests.slice(-8).join('\n')}`,
  });
});
