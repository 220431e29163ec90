import type { LookupAddress } from 'node:dns';
import { createServer, request, type Server } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createOutboundAgents,
  type Lookup,
  type OutboundAgents,
} from '../../../src/foundation/security/outbound-filter.ts';
import { codeOf } from '../../conformance/destination-suite.ts';
import { listen } from '../../support/free-port.ts';
import { until } from '../../support/until.ts';
import { listenInTest } from '../../support/use-stage.ts';
import { isPublicAddress } from '../../../src/foundation/security/public-address.ts';

describe('a public address', () => {
  it.each(['8.8.8.8', '52.216.1.1', '1.1.1.1', '172.32.0.1', '2606:4700::1', '2a05:d018::1'])(
    'is %s',
    (address) => expect(isPublicAddress(address)).toBe(true),
  );

  it.each([
    '127.0.0.1',
    '127.255.255.254',
    '0.0.0.0',
    '0.1.2.3',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '100.64.0.1',
    '100.100.100.200',
    '169.254.169.254',
    '168.63.129.16',
    '192.0.0.192',
    '198.18.0.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:8.8.8.8',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b:1::7f00:1',
    '2002:7f00:1::1',
    '2001::1',
    '2001:db8::1',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'fc00::1',
    'fd00:ec2::254',
    'ff02::1',
    '5f00::1',
    'example.org',
    '',
  ])('is not %j', (address) => expect(isPublicAddress(address)).toBe(false));
});

describe('connections through the outbound agents', () => {
  let server: Server;
  let port: number;
  let hits = 0;

  beforeAll(async () => {
    server = createServer((_, response) => {
      hits += 1;
      response.end('reached');
    });
    port = await listen(server);
  });
  afterAll(() => void server.close());

  /** Answers the addresses of a name, as a resolver would. */
  const resolving = (names: Record<string, readonly string[]>): Lookup => {
    return (hostname, options, callback) => {
      const found = names[hostname] ?? [];
      const all: LookupAddress[] = found.map((address) => ({
        address,
        family: address.includes(':') ? 6 : 4,
      }));
      const [first] = all;
      process.nextTick(() =>
        options.all ? callback(null, all) : callback(null, first?.address ?? '', first?.family),
      );
    };
  };

  function get(agents: OutboundAgents, host: string): Promise<string> {
    return new Promise((resolve, reject) => {
      request({ host, port, agent: agents.httpAgent }, (response) => {
        response.setEncoding('utf8').on('data', resolve);
      })
        .on('error', reject)
        .end();
    });
  }

  const forbidden = 'destination.endpoint_forbidden';

  it.each(['127.0.0.1', '::1', '::ffff:127.0.0.1', '0.0.0.0', 'localhost', '127.1', '2130706433'])(
    'are refused to %s, and nothing is sent',
    async (host) => {
      const before = hits;
      expect(await codeOf(get(createOutboundAgents([]), host))).toBe(forbidden);
      expect(hits).toBe(before);
    },
  );

  it('are refused over TLS too', async () => {
    const agents = createOutboundAgents([]);
    for (const host of ['127.0.0.1', 'localhost']) {
      const attempt = new Promise((resolve, reject) => {
        httpsRequest({ host, port, agent: agents.httpsAgent }, resolve).on('error', reject).end();
      });
      expect(await codeOf(attempt)).toBe(forbidden);
    }
  });

  it('are refused if one of several addresses is private', async () => {
    const lookup = resolving({ 'mixed.test': ['8.8.8.8', '127.0.0.1'] });
    expect(await codeOf(get(createOutboundAgents([], lookup), 'mixed.test'))).toBe(forbidden);
  });

  it('are refused to a name that turned private after an earlier look', async () => {
    const names: Record<string, readonly string[]> = { 'rebind.test': ['8.8.8.8'] };
    const agents = createOutboundAgents([], resolving(names));
    names['rebind.test'] = ['127.0.0.1'];
    expect(await codeOf(get(agents, 'rebind.test'))).toBe(forbidden);
  });

  it('refuse a request that waited for a socket without ending the process', async () => {
    const agents = createOutboundAgents([]);
    agents.httpAgent.maxSockets = 1;
    const refusals = await Promise.all(
      Array.from({ length: 5 }, () => codeOf(get(agents, '127.0.0.1'))),
    );
    expect(new Set(refusals)).toEqual(new Set([forbidden]));
  });

  it('reach what the operator names, by host, by host and port, and below a host', async () => {
    const lookup = resolving({ 'store.test': ['127.0.0.1'], 'bucket.store.test': ['127.0.0.1'] });
    for (const [entry, host] of [
      ['127.0.0.1', '127.0.0.1'],
      [`127.0.0.1:${port}`, '127.0.0.1'],
      [`STORE.test:${port}`, 'store.test'],
      ['*.store.test', 'bucket.store.test'],
      [`*.store.test:${port}`, 'bucket.store.test'],
    ] as const) {
      expect(await get(createOutboundAgents([entry], lookup), host)).toBe('reached');
    }
  });

  it('do not reach past what the operator names', async () => {
    const lookup = resolving({ 'store.test': ['127.0.0.1'], 'bucket.store.test': ['127.0.0.1'] });
    for (const [entry, host] of [
      ['127.0.0.1:1', '127.0.0.1'],
      ['store.test', 'bucket.store.test'],
      ['*.store.test', 'store.test'],
      ['*.test', 'bucket.store.test'],
      ['', 'store.test'],
    ] as const) {
      expect(await codeOf(get(createOutboundAgents([entry], lookup), host))).toBe(forbidden);
    }
  });
});

describe('a URL whose host needs no resolver', () => {
  const refusalOf = (allowed: readonly string[], url: string) =>
    createOutboundAgents(allowed).refusalOf(new URL(url));

  it.each([
    ['http://10.0.0.1', '10.0.0.1'],
    ['https://169.254.169.254/latest/meta-data', '169.254.169.254'],
    ['http://[fd00:ec2::254]', '[fd00:ec2::254]'],
    ['http://2130706433', '127.0.0.1'],
    ['http://0177.0.0.01:9000', '127.0.0.1'],
    ['http://0x7f.1', '127.0.0.1'],
    ['http://192.168.1.1.', '192.168.1.1'],
    ['http://[::ffff:10.0.0.1]', '[::ffff:a00:1]'],
    ['http://LOCALHOST:9000', 'localhost'],
    ['https://s3.localhost./', 's3.localhost.'],
  ])('is refused at once: %s', (url, host) => {
    expect(refusalOf([], url)).toContain(`add ${host} to ALLOWED_PRIVATE_ENDPOINTS`);
    expect(refusalOf([host.replace(/\.$/, '')], url)).toBeNull();
  });

  it.each([
    'https://8.8.8.8',
    'https://[2606:4700::1]',
    'http://minio',
    'http://localhost.example',
  ])('is left to the connection: %s', (url) => expect(refusalOf([], url)).toBeNull());
});

it('ends a connection that has had no request for a while', async () => {
  const sockets = new Set<Socket>();
  const server = createServer((_request, response) => response.end('a'));
  server.keepAliveTimeout = 0;
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const port = await listenInTest(server);
  const agents = createOutboundAgents([`127.0.0.1:${port}`], undefined, 100);
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port, agent: agents.httpAgent }, (response) => {
        response.resume().once('end', resolve);
      });
      asked.once('error', reject).end();
    });
  await ask();
  await ask();
  expect(sockets.size).toBe(1);
  await until(() => sockets.size === 0, { message: () => 'the idle connection ends' });
});
