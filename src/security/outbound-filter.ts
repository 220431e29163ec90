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
 * Agents for connections to endpoints that tenants name. Addresses are checked when the socket is made,
 * after the name was resolved, so changing the address of a name between check and use has no effect.
 * Refusal: SluiceError `destination.endpoint_forbidden`.
 *
 * The agents follow no redirect (Node's never do) and use no proxy. A caller must not follow redirects
 * without them.
 */
export interface OutboundAgents {
  readonly httpAgent: HttpAgent;
  readonly httpsAgent: HttpsAgent;
}

/** How names are resolved; `dns.lookup` except in tests. */
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
 * @param allowedPrivateEndpoints `host` (any port), `host:port`, `[::1]:port`, or `*.host` for the names
 *   below a host, as virtual-host style needs. These endpoints are not checked at all.
 */
export function createOutboundAgents(
  allowedPrivateEndpoints: readonly string[],
  lookup: Lookup = dnsLookup,
): OutboundAgents {
  const allowed = new Set(allowedPrivateEndpoints.map((endpoint) => endpoint.trim().toLowerCase()));
  const options = { keepAlive: true, maxSockets: 256, maxFreeSockets: 64 };
  // Their classes check the addresses again with their own table: two walls.
  return {
    httpAgent: guard(new RequestFilteringHttpAgent(options), HttpAgent, allowed, lookup),
    httpsAgent: guard(new RequestFilteringHttpsAgent(options), HttpsAgent, allowed, lookup),
  };
}

type Listener = (error: Error | null, socket: Duplex) => void;
type Connect = (options: TcpNetConnectOpts, listener?: Listener) => Duplex | null | undefined;

/** @param plain its class without any check, for allowed endpoints */
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

/** A literal address is never resolved, so it is checked here. */
function isForbiddenLiteral(host: string | undefined): host is string {
  return host !== undefined && isIP(host) !== 0 && !isPublicAddress(host);
}

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
