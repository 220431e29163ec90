import type { LookupAddress, LookupOptions } from 'node:dns';
import { lookup as dnsLookup } from 'node:dns';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { isIP, type LookupFunction, Socket, type TcpNetConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { RequestFilteringHttpAgent, RequestFilteringHttpsAgent } from 'request-filtering-agent';
import { SluiceError } from '../domain/errors.ts';
import { noProxy, openTunnel, type ProxySettings, proxyFor } from './proxy.ts';
import { createNameLookup, type NameLookup } from './name-lookup.ts';
import { isPublicAddress } from './public-address.ts';

/**
 * Agents for connections to endpoints that tenants name. Addresses are checked when the socket is made,
 * after the name was resolved, so changing the address of a name between check and use has no effect.
 * Refusal: SluiceError `destination.endpoint_forbidden`.
 *
 * The agents follow no redirect (Node's never do). A caller must not follow redirects
 * without them. With a proxy, the name is resolved and checked here too, but the proxy resolves it again: it must refuse
 * private addresses itself. A name that only the proxy can resolve is left to it.
 */
export interface OutboundAgents {
  readonly httpAgent: HttpAgent;
  readonly httpsAgent: HttpsAgent;
}

export interface OutboundFilter extends OutboundAgents {
  /** Why the agents refuse the host of a URL whatever a resolver answers; null: they may reach it. */
  readonly refusalOf: (url: URL) => string | null;
}

export type Lookup = (
  hostname: string,
  options: LookupOptions,
  callback: (
    error: NodeJS.ErrnoException | null,
    address: string | LookupAddress[],
    family?: number,
  ) => void,
) => void;

/** A run asks again within seconds. A store decides nothing here: it could keep any number of connections. */
const usualIdleMs = 15_000;

/**
 * @param allowedPrivateEndpoints `host` (any port), `host:port`, `[::1]:port`, or `*.host` for the names below a
 *   host; they are not checked, and the system resolves their names
 * @param names resolves all others
 * @param idleMs after which an unused connection ends
 */
export function createOutboundAgents(
  allowedPrivateEndpoints: readonly string[],
  names: NameLookup | Lookup = createNameLookup(),
  idleMs = usualIdleMs,
  proxies = noProxy,
): OutboundFilter {
  const lookup: Lookups =
    typeof names === 'function'
      ? { allowed: names, checked: () => names }
      : { allowed: dnsLookup, checked: (tenant) => lookupOf(names, tenant) };
  const allowed = endpointSet(allowedPrivateEndpoints);
  const options = { keepAlive: true, maxSockets: 256, maxFreeSockets: 64, timeout: idleMs };
  // Their classes check the addresses again with their own table: two walls.
  return {
    httpAgent: guard(new RequestFilteringHttpAgent(options), HttpAgent, allowed, lookup, proxies),
    httpsAgent: guard(
      new RequestFilteringHttpsAgent(options),
      HttpsAgent,
      allowed,
      lookup,
      proxies,
    ),
    refusalOf(url) {
      const endpoint = endpointOf(url);
      const { host } = endpoint;
      return isForbiddenLiteral(host) && !isAllowed(endpoint, allowed)
        ? `${host} is a private address. Use a public one, or ask your operator to add ${url.hostname} to ALLOWED_PRIVATE_ENDPOINTS.`
        : null;
    },
  };
}

const endpointSet = (endpoints: readonly string[]): ReadonlySet<string> =>
  new Set(endpoints.map((endpoint) => endpoint.trim().toLowerCase()));

/** Says whether the operator names the host of a URL in `allowedPrivateEndpoints`. */
export function allowsEndpoint(allowedPrivateEndpoints: readonly string[], url: URL): boolean {
  return isAllowed(endpointOf(url), endpointSet(allowedPrivateEndpoints));
}

/** The URL parser turns each form of an IPv4 address (`2130706433`, `0x7f.1`, `0177.0.0.1.`) into the usual one. */
function endpointOf({ port, protocol, hostname }: URL): { host: string; port: number } {
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
  };
}

interface Lookups {
  readonly allowed: Lookup;
  readonly checked: (tenant: string) => Lookup;
}

function lookupOf(names: NameLookup, tenant: string): Lookup {
  return (hostname, options, callback) => {
    const answer = (found: readonly LookupAddress[]): void => {
      const { family } = options;
      const addresses = found.filter((each) => !family || each.family === family);
      const [first] = addresses;
      if (first === undefined) {
        callback(Object.assign(new Error(`ENOTFOUND: ${hostname}`), { code: 'ENOTFOUND' }), '');
      } else if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    };
    names.resolve(hostname, tenant).then(answer, (error) => callback(error, ''));
  };
}

type Listener = (error: Error | null, socket: Duplex) => void;
/** @property tenant on whose behalf a request is sent; each request may say it */
type ConnectOptions = TcpNetConnectOpts & { readonly tenant?: string };
type Connect = (options: ConnectOptions, listener?: Listener) => Duplex | null | undefined;

/** @param plain its class without any check, for allowed endpoints */
function guard<A extends HttpAgent>(
  agent: A,
  plain: typeof HttpAgent | typeof HttpsAgent,
  allowed: ReadonlySet<string>,
  lookup: Lookups,
  proxies: ProxySettings,
): A {
  const connectChecked: Connect = agent.createConnection.bind(agent);
  const connectPlain: Connect = plain.prototype.createConnection.bind(agent);
  const createConnection: Connect = (options, listener) => {
    if (isAllowed(options, allowed)) {
      return connectPlain({ ...options, lookup: lookup.allowed as LookupFunction }, listener);
    }
    const { host } = options;
    if (isForbiddenLiteral(host)) return refusedSocket(host, listener);
    const resolve = lookup.checked(options.tenant ?? '');
    const secure = plain === HttpsAgent;
    const port = Number(options.port ?? (secure ? 443 : 80));
    const proxy = host === undefined ? null : proxyFor(proxies, secure, host, port);
    if (host !== undefined && proxy !== null && listener) {
      throughProxy(proxy, host, port, checkedLookup(resolve)).then(
        (socket) => {
          const link = secure ? connectPlain({ ...options, socket } as ConnectOptions) : socket;
          listener(null, link ?? socket);
        },
        (error: Error) => listener(error, new Socket()),
      );
      return undefined;
    }
    return connectChecked({ ...options, lookup: checkedLookup(resolve) }, listener);
  };
  return Object.assign(agent, { createConnection });
}

/** @throws SluiceError `destination.endpoint_forbidden`; what `openTunnel` throws */
async function throughProxy(
  proxy: string,
  host: string,
  port: number,
  resolve: LookupFunction,
): Promise<Socket> {
  if (isIP(host) === 0) {
    await new Promise<void>((done, fail) => {
      resolve(host, { all: true }, (error) =>
        error instanceof SluiceError ? fail(error) : done(),
      );
    });
  }
  return openTunnel(proxy, host, port);
}

function isAllowed(options: TcpNetConnectOpts, allowed: ReadonlySet<string>): boolean {
  const host = (options.host ?? '').toLowerCase().replace(/\.$/, '');
  const name = isIP(host) === 6 ? `[${host}]` : host;
  const parent = `*.${name.split('.').slice(1).join('.')}`;
  return [name, parent].some((each) => allowed.has(each) || allowed.has(`${each}:${options.port}`));
}

/** A literal address is never resolved, so it is checked here. */
function isForbiddenLiteral(host: string | undefined): host is string {
  if (host === undefined) return false;
  // Resolvers may read `127.1` or `2130706433` as an address. No public name ends in a number, or is in `localhost` (RFC 6761).
  return isIP(host) === 0 ? neverPublic.test(host) : !isPublicAddress(host);
}

const neverPublic = /(?:^|\.)(?:\d+|0x[\da-f]*|localhost)\.?$/i;

/** Passed to the listener, not thrown: the agent may be serving a queued request. */
function refusedSocket(host: string, listener: Listener | undefined): Duplex {
  const socket = new Socket();
  if (listener) listener(forbidden(host), socket);
  else socket.destroy(forbidden(host));
  return socket;
}

/** Refuses a name if any of its addresses is forbidden, because we do not choose which one is used. */
function checkedLookup(lookup: Lookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, options, (error, address, family) => {
      if (error) return callback(error, address, family);
      const addresses = typeof address === 'string' ? [address] : address.map((a) => a.address);
      const refused = addresses.some((each) => !isPublicAddress(each));
      return callback(refused ? forbidden(hostname) : null, address, family);
    });
  };
}

/** The address itself is not shown: it would reveal the operator's network to a tenant. */
function forbidden(host: string): SluiceError {
  return new SluiceError('destination.endpoint_forbidden', `host ${host.slice(0, 255)}`);
}
