import { createServer, request, type Server } from 'node:http';
import { createServer as createHttpsServer, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import {
  createOutboundAgents,
  type Lookup,
} from '../../../src/foundation/security/outbound-filter.ts';
import { parseNoProxy } from '../../../src/foundation/domain/no-proxy.ts';
import {
  openTunnel,
  type ProxySettings,
  proxyFor,
} from '../../../src/foundation/security/proxy.ts';
import { startConnectProxy } from '../../support/connect-proxy.ts';
import { startDrippingServer } from '../../support/dripping-server.ts';
import { listen, stopServer } from '../../support/free-port.ts';
import { tlsFiles } from '../../support/tls-certificates.ts';

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** Each name has a public address, besides those that say otherwise. */
const lookup: Lookup = (name, { all }, callback) => {
  if (name === 'hidden.example') {
    return callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), '');
  }
  const address = name === 'inside.example' ? '10.0.0.7' : '93.184.216.34';
  if (all) callback(null, [{ address, family: 4 }]);
  else callback(null, address, 4);
};

let plain: Server;
let secure: Server;
let proxy: Awaited<ReturnType<typeof startConnectProxy>>;
let answer = 200;

beforeAll(async () => {
  plain = createServer((incoming, response) => response.end(`plain ${incoming.url}`));
  const { serverCertificate: cert, serverKey: key } = tlsFiles;
  secure = createHttpsServer({ cert, key }, (incoming, response) => response.end(incoming.url));
  for (const server of [plain, secure]) await listen(server);
  proxy = await startConnectProxy((target) => {
    if (answer !== 200) return { refused: answer };
    return portOf(target.endsWith(':443') ? secure : plain);
  });
});
beforeEach(() => {
  proxy.asked.length = 0;
  answer = 200;
});
afterAll(async () => {
  for (const server of [plain, secure]) await stopServer(server);
  await proxy.stop();
});

async function get(url: string, noProxy = ''): Promise<string> {
  const address = `http://me:pass%20word@127.0.0.1:${proxy.port}`;
  const exceptions = parseNoProxy(noProxy);
  const proxies: ProxySettings = { http: address, https: address, exceptions };
  const agents = createOutboundAgents(['allowed.example'], lookup, 1_000, proxies);
  const isSecure = url.startsWith('https:');
  const agent = isSecure ? agents.httpsAgent : agents.httpAgent;
  const tls = { ca: tlsFiles.caCertificate, servername: 'localhost' };
  try {
    return await new Promise((resolve, reject) => {
      const outgoing = (isSecure ? httpsRequest : request)(url, { agent, timeout: 300, ...tls });
      outgoing.on('error', reject);
      outgoing.on('timeout', () => outgoing.destroy(new Error('direct')));
      outgoing.on('response', async (response) => {
        let body = '';
        for await (const chunk of response.setEncoding('utf8')) body += chunk;
        resolve(body);
      });
      outgoing.end();
    });
  } finally {
    agent.destroy();
  }
}

describe('a request by way of a proxy', () => {
  it.each([
    ['http://store.example/a?b', 'plain /a?b', 'store.example:80'],
    ['http://store.example:8080/a', 'plain /a', 'store.example:8080'],
    ['https://store.example/a', '/a', 'store.example:443'],
    ['https://93.184.216.34/a', '/a', '93.184.216.34:443'],
    // Only the proxy knows this name.
    ['https://hidden.example/a', '/a', 'hidden.example:443'],
  ])('to %s gets its answer', async (url, body, target) => {
    expect(await get(url)).toBe(body);
    const login = `Basic ${Buffer.from('me:pass word').toString('base64')}`;
    expect(proxy.asked).toEqual([{ target, login }]);
  });

  it.each(['https://inside.example/', 'https://10.0.0.7/', 'https://127.1/', 'http://[::1]/'])(
    'to %s is refused here: the proxy never hears of it',
    async (url) => {
      const error: unknown = await get(url).catch((caught: unknown) => caught);
      expect((error as SluiceError).code).toBe('destination.endpoint_forbidden');
      expect(proxy.asked).toEqual([]);
    },
  );

  it.each([403, 407, 502])(
    'fails with the words of the operator if it is answered %i',
    async (status) => {
      answer = status;
      const error: unknown = await get('https://store.example/').catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(SluiceError);
      expect(error).toMatchObject({
        code: 'destination.proxy_refused',
        detail: `HTTP ${status} to CONNECT`,
      });
    },
  );

  it('is not made for a host that needs none', async () => {
    await get('http://store.example/', '.example').catch(() => {});
    await get('http://allowed.example/').catch(() => {});
    expect(proxy.asked).toEqual([]);
  });
});

describe('the time until a tunnel is open', () => {
  const limitMs = 500;

  it.each([
    ['http', 'the headers of the answer', Buffer.from('HTTP/1.1 200 OK\r\nslow: ')],
    // A record of TLS that is 16 KiB long.
    ['https', 'the handshake', Buffer.from([22, 3, 3, 64, 0])],
  ])('ends for an %s proxy that drips %s', async (protocol, _, beginning) => {
    const dripping = await startDrippingServer((socket, __, drip) => {
      socket.write(beginning);
      drip();
    });
    onTestFinished(dripping.stop);
    const open = (address: string) => openTunnel(address, 'store.example', 80, limitMs);
    const inTime = await open(`http://127.0.0.1:${proxy.port}`);
    await expect(open(`${protocol}://127.0.0.1:${dripping.port}`)).rejects.toMatchObject({
      code: 'ETIMEDOUT',
    });
    await Promise.all(dripping.closed);

    // Its time began first, and has passed too.
    inTime.write('GET /a HTTP/1.1\r\nhost: store.example\r\nconnection: close\r\n\r\n');
    let answered = '';
    for await (const chunk of inTime.setEncoding('utf8')) answered += chunk;
    expect(answered).toContain('plain /a');
  });
});

describe('NO_PROXY', () => {
  const proxies = (text: string): ProxySettings => ({
    http: null,
    https: 'p',
    exceptions: parseNoProxy(text),
  });

  it.each([
    ['example.com', 'example.com', true],
    ['example.com', 's3.example.com', true],
    ['.example.com', 's3.example.com', true],
    ['*.example.com', 's3.example.com', true],
    ['example.com', 'myexample.com', false],
    ['example.com:443', 'example.com', true],
    ['example.com:8443', 'example.com', false],
    ['*', 'anything', true],
    ['::1', '[::1]', true],
    ['[::1]:443', '::1', true],
    ['[::1]:444', '::1', false],
    ['0:0:0:0:0:0:0:1', '::1', true],
    ['EXAMPLE.com.', 'example.COM.', true],
    ['10.0.0.0/8', '10.200.3.4', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['10.0.0.0/8', '10.example.com', false],
    ['192.168.1.0/24:443', '192.168.1.9', true],
    ['192.168.1.0/24:80', '192.168.1.9', false],
    ['2001:db8::/32', '[2001:db8:1::7]', true],
    ['2001:db8::/32', '2001:db9::1', false],
    ['10.0.0.0/8', '::ffff:10.1.2.3', true],
    ['*:443', 'anything', true],
    ['*:80', 'anything', false],
    ['a.example b.example,\tc.example', 'c.example', true],
    ['localhost', 'localhost', true],
    ['', 'anything', false],
  ])('%s for %s', (entry, host, isDirect) => {
    expect(proxyFor(proxies(entry), true, host, 443)).toBe(isDirect ? null : 'p');
  });

  it.each([
    '<local>',
    '<-loopback>',
    'a;b',
    '10.0.0.0/33',
    '10.0.*',
    '192.168',
    'ex*mple.com',
    'http://a.example',
    'a.example:0',
    '2001:db8::/129',
    'a.example:x',
  ])('%s is refused with its name', (entry) => {
    expect(() => parseNoProxy(`ok.example, ${entry}`)).toThrow(`names ${entry}: each entry must`);
  });
});
