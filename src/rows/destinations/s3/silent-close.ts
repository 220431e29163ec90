import type { ClientRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { DestinationContext, OwnedRequest } from '../destination.ts';
import { notAStore } from './not-the-store.ts';

/** The parts of a request that say where it went. */
interface Sent {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
}

/** Says whether a new connection without TLS was closed before any byte of an answer. A port that speaks TLS does that. */
export function isSilentClose(error: Error, outgoing: ClientRequest, { protocol }: Sent): boolean {
  const { code } = error as NodeJS.ErrnoException;
  const { socket, reusedSocket } = outgoing;
  return protocol === 'http:' && code === 'ECONNRESET' && !reusedSocket && socket?.bytesRead === 0;
}

/**
 * Tries whether the port speaks TLS. Nothing is sent over it but the handshake.
 *
 * @returns what the owner of the export should see instead of `error`, or `error`
 */
export async function explainSilence(
  error: Error,
  request: Sent,
  limits: Pick<DestinationContext, 'httpsAgent' | 'connectTimeoutMs'>,
  tenant: string,
): Promise<Error> {
  if (!(await speaksTls(request, limits, tenant))) return error;
  return notAStore(
    'The connection was closed without an answer, and the port speaks TLS. Set endpoint_url to an address that begins with https://.',
  );
}

function speaksTls(
  { hostname, port }: Sent,
  { httpsAgent, connectTimeoutMs }: Pick<DestinationContext, 'httpsAgent' | 'connectTimeoutMs'>,
  tenant: string,
): Promise<boolean> {
  const owned: OwnedRequest = { tenant };
  const host = hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const outgoing = httpsRequest({ ...owned, agent: httpsAgent, host, port, method: 'HEAD' });
    const end = (speaks: boolean) => {
      clearTimeout(overdue);
      outgoing.destroy();
      resolve(speaks);
    };
    const overdue = setTimeout(() => end(false), connectTimeoutMs);
    outgoing.once('socket', (socket) => socket.once('secureConnect', () => end(true)));
    // Its certificate may be one that is not accepted.
    outgoing.on('error', (found: NodeJS.ErrnoException) =>
      end(/CERT|SIGNATURE/.test(found.code ?? '')),
    );
  });
}
