import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { SluiceError } from '../domain/errors.ts';
import type { NoProxyEntry } from '../domain/no-proxy.ts';

export interface ProxySettings {
  readonly http: string | null;
  /** For `https://` addresses and mail servers; null: none. */
  readonly https: string | null;
  readonly exceptions: readonly NoProxyEntry[];
}

export const noProxy: ProxySettings = { http: null, https: null, exceptions: [] };

/** For the connection to the proxy and its answer together: a proxy that answers byte by byte is never silent. */
const usualTunnelMs = 15_000;

export function proxyFor(
  { http, https, exceptions }: ProxySettings,
  secure: boolean,
  host: string,
  port: number,
): string | null {
  const proxy = secure ? https : http;
  if (proxy === null) return null;
  const name = host.toLowerCase().replace(/^\[|\]$|\.$/g, '');
  const isExcepted = exceptions.some(
    (entry) => (entry.port === null || entry.port === port) && entry.covers(name),
  );
  return isExcepted ? null : proxy;
}

/** By CONNECT: the proxy resolves the name. @param limitMs in all @throws SluiceError `destination.proxy_refused` */
export function openTunnel(
  proxy: string,
  host: string,
  port: number,
  limitMs = usualTunnelMs,
): Promise<Socket> {
  const { protocol, hostname, port: at, username, password } = new URL(proxy);
  const secure = protocol === 'https:';
  const target = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const basic = `Basic ${Buffer.from(login).toString('base64')}`;
  return new Promise((resolve, reject) => {
    const outgoing = (secure ? httpsRequest : httpRequest)({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: at === '' ? (secure ? 443 : 80) : Number(at),
      method: 'CONNECT',
      path: target,
      agent: false,
      headers: { host: target, ...(username === '' ? {} : { 'proxy-authorization': basic }) },
    });
    const overdue = setTimeout(() => {
      outgoing.destroy(Object.assign(new Error('No answer of the proxy'), { code: 'ETIMEDOUT' }));
    }, limitMs);
    outgoing.once('close', () => clearTimeout(overdue));
    const refuse = (status: number | undefined) => {
      outgoing.destroy();
      reject(new SluiceError('destination.proxy_refused', `HTTP ${status} to CONNECT`));
    };
    outgoing.once('connect', ({ statusCode }, socket: Socket, head: Buffer) => {
      clearTimeout(overdue);
      // Nothing may come before the first byte is sent.
      if (statusCode !== 200 || head.length > 0) return refuse(statusCode);
      resolve(socket);
    });
    // A proxy that does not know CONNECT answers as a server does.
    outgoing.once('response', ({ statusCode }) => refuse(statusCode));
    outgoing.once('error', reject);
    outgoing.end();
  });
}
