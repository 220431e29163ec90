import type { LookupAddress, LookupOptions } from 'node:dns';
import { lookup as dnsLookup } from 'node:dns';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { isIP, type LookupFunction, Socket, type TcpNetConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { RequestFilteringHttpAgent, RequestFilteringHttpsAgent } from 'request-filtering-agent';
import { SluiceError } from '../domain/errors.ts';
import { isPublicAddress } from './public-address.ts';

/**
 * Agents for connections to endpoints that tenants name. The addresses are checked when the socket
 * is made, after the name was resolved, so a name that changes its address between a check and
 * its use gains nothing. Refusal: SluiceError `destination.endpoint_forbidden`.
 *
 * The agents follow no redirect (Node's never do) and use no proxy. Whoever sends requests through
 * them must not follow redirects past them.
 */
export interface OutboundAgents {
  readonly httpAgent: HttpAgent;
  readonly httpsAgent: HttpsAgent;
}

/** How names are resolved; `dns.lookup` but in tests. */
export type Lookup = (
  hostname: string,
  options: LookupOptions,
  callback: (
    error: NodeJS.ErrnoException | null,
    address: string | LookupAddress[],
    family?: number,
  ) => void,
) => void;

/**
 * @param allowedPrivateEndpoints `host` (any port), `host:port`, `[::1]:port`, or `*.host` for the
 * names below a host, as virtual-host style needs. What is named there is not checked at all.
 */
export function createOutboundAgents(
  allowedPrivateEndpoints: readonly string[],
  lookup: Lookup = dnsLookup,
): OutboundAgents {
  const allowed = new Set(allowedPrivateEndpoints.map((endpoint) => endpoint.trim().toLowerCase()));
  const options = { keepAlive: true, maxSockets: 256, maxFreeSockets: 64 };
  // Their classes check the addresses once more by a table of their own: two walls.
  return {
    httpAgent: guard(new RequestFilteringHttpAgent(options), HttpAgent, allowed, lookup),
    httpsAgent: guard(new RequestFilteringHttpsAgent(options), HttpsAgent, allowed, lookup),
  };
}

type Listener = (error: Error | null, socket: Duplex) => void;
type Connect = (options: TcpNetConnectOpts, listener?: Listener) => Duplex | null | undefined;

/** @param plain its class without any check, for the endpoints that are allowed */
function guard<A extends HttpAgent>(
  agent: A,
  plain: typeof HttpAgent | typeof HttpsAgent,
  allowed: ReadonlySet<string>,
  lookup: Lookup,
): A {
  const connectChecked: Connect = agent.createConnection.bind(agent);
  const connectPlain: Connect = plain.prototype.createConnection.bind(agent);
  const createConnection: Connect = (options, listener) => {
    if (isAllowed(options, allowed)) {
      return connectPlain({ ...options, lookup: lookup as LookupFunction }, listener);
    }
    const { host } = options;
    if (isForbiddenLiteral(host)) return refusedSocket(host, listener);
    return connectChecked({ ...options, lookup: checkedLookup(lookup) }, listener);
  };
  return Object.assign(agent, { createConnection });
}

function isAllowed(options: TcpNetConnectOpts, allowed: ReadonlySet<string>): boolean {
  const host = (options.host ?? '').toLowerCase().replace(/\.$/, '');
  const name = isIP(host) === 6 ? `[${host}]` : host;
  const parent = `*.${name.split('.').slice(1).join('.')}`;
  return [name, parent].some((each) => allowed.has(each) || allowed.has(`${each}:${options.port}`));
}

/** A literal address is never looked up, so it is checked here. */
function isForbiddenLiteral(host: string | undefined): host is string {
  return host !== undefined && isIP(host) !== 0 && !isPublicAddress(host);
}

/** Reported to the listener, not thrown: the agent may be serving a request that waited for its turn. */
function refusedSocket(host: string, listener: Listener | undefined): Duplex {
  const socket = new Socket();
  if (listener) listener(forbidden(host), socket);
  else socket.destroy(forbidden(host));
  return socket;
}

/** Refuses a name as soon as one of its addresses is forbidden: which one is used is not ours to say. */
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

/** The address itself is not shown: it would map the operator's network for a tenant. */
function forbidden(host: string): SluiceError {
  return new SluiceError('destination.endpoint_forbidden', `host ${host.slice(0, 255)}`);
}
