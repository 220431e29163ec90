import { once } from 'node:events';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { systemClock } from '../../../src/foundation/domain/clock.ts';
import { authorizationHeader, type S3Credentials } from './authentication.ts';
import { sha256Hex } from './signature.ts';

/** A request written by hand: for what a good client never sends. */
export interface RawRequest {
  /** May hold a path, which comes before `path`. */
  endpoint: string;
  method: string;
  /** Decoded, with the bucket in path style. */
  path: string;
  query?: [string, string][];
  /** Lower-case names. `host` chooses the virtual host; with `expect` the body waits for 100 Continue. */
  headers?: Record<string, string>;
  /** Sent, but not signed. */
  unsignedHeaders?: Record<string, string>;
  body?: Buffer | string;
  /** `x-amz-content-sha256`; default: the body's SHA-256. */
  payloadHash?: string;
  credentials: S3Credentials | null;
  region?: string;
  /** How far the client's clock is off. */
  skewMs?: number;
  /** Changes the request after it was signed. */
  tamper?: (target: string) => string;
}

export interface RawAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** `<Code>` of an error document. */
  code: string | undefined;
}

/** `20130524T000000Z` */
const amzDateOf = (ms: number): string => new Date(ms).toISOString().replace(/[-:]|\.\d+/g, '');

const encodePath = (path: string): string =>
  path
    .split('/')
    .map((piece) =>
      encodeURIComponent(piece).replace(
        /[!'()*]/g,
        (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
      ),
    )
    .join('/');

function targetOf(path: string, query: [string, string][]): string {
  const text = query.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
  return text === '' ? encodePath(path) : `${encodePath(path)}?${text}`;
}

/** Signs (or, on purpose, mis-signs) and sends one request over a connection of its own. */
export async function sendRaw(raw: RawRequest): Promise<RawAnswer> {
  const endpoint = new URL(raw.endpoint);
  const path = endpoint.pathname.replace(/\/$/, '') + raw.path;
  const query = raw.query ?? [];
  const body = Buffer.from(raw.body ?? '');
  const amzDate = amzDateOf(systemClock.now() + (raw.skewMs ?? 0));
  const scope = { date: amzDate.slice(0, 8), region: raw.region ?? 'us-east-1', service: 's3' };
  const headers: Record<string, string> = {
    host: endpoint.host,
    'x-amz-date': amzDate,
    'x-amz-content-sha256': raw.payloadHash ?? sha256Hex(body),
    ...raw.headers,
  };
  if (raw.credentials) {
    headers.authorization = authorizationHeader(raw.credentials, scope, amzDate, {
      method: raw.method,
      path,
      query,
      headers,
      signedHeaders: Object.keys(headers).sort(),
      payloadHash: headers['x-amz-content-sha256'] ?? '',
    });
  }
  const target = targetOf(path, query);
  const request = httpRequest({
    host: endpoint.hostname,
    port: endpoint.port,
    method: raw.method,
    path: raw.tamper ? raw.tamper(target) : target,
    headers: { ...headers, ...raw.unsignedHeaders, 'content-length': String(body.length) },
    agent: false,
  });
  // `once` below reports errors before the answer. An error after it, for example if the server answers
  // early and hangs up on the rest of the body, must not end the process.
  request.on('error', () => {});
  if (headers.expect !== undefined) {
    request.flushHeaders();
    await once(request, 'continue');
  }
  request.end(body);
  const [response] = await once(request, 'response');
  let text = '';
  for await (const chunk of response) text += chunk;
  const code = /<Code>([^<]*)<\/Code>/.exec(text)?.[1];
  return { status: response.statusCode, headers: response.headers, text, code };
}
