import type { Api, Request } from '../api.ts';

const wellFormedHost = /^(?:[a-z0-9][a-z0-9.-]*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
const loopback = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;

export interface PublicAddress {
  /** Where clients reach the service; null if that is not configured. */
  readonly publicUrl: string | null;
  /** The number of proxies that set X-Forwarded-* headers which are trusted. */
  readonly trustProxy: number;
}

/** Sets what links begin with: never a Host that the client made up. */
export function knowAddress(api: Api, address: PublicAddress): void {
  api.decorateRequest('linkBase', '');
  api.addHook('onRequest', async (request) => {
    request.linkBase = linkBaseOf(request, address);
  });
}

/**
 * PUBLIC_URL, or the Host if it is known to be ours: that of a trusted proxy, the address that the
 * connection came in at, or loopback. For any other Host it is the address of the connection.
 */
function linkBaseOf(request: Request, { publicUrl, trustProxy }: PublicAddress): string {
  if (publicUrl !== null) return publicUrl.replace(/\/+$/, '');
  const { host, protocol } = request;
  const own = socketAddress(request);
  const isForwarded = trustProxy > 0 && request.headers['x-forwarded-host'] !== undefined;
  const isOurs = loopback.test(host) || host === own || (isForwarded && wellFormedHost.test(host));
  return `${protocol}://${isOurs ? host : (own ?? 'localhost')}`;
}

/** Where the connection came in; null if there is no socket. */
function socketAddress({ socket }: Request): string | null {
  const { localAddress, localPort } = socket;
  if (localAddress === undefined || localPort === undefined) return null;
  const ip = localAddress.replace(/^::ffff:(?=\d+\.)/i, '');
  return `${ip.includes(':') ? `[${ip}]` : ip}:${localPort}`;
}
