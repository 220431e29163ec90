import type { IncomingMessage } from 'node:http';
import { type OperationName, operationOf } from './operations.ts';

/** A parsed request; its signature is not checked yet. */
export interface S3Request {
  id: string;
  method: string;
  /** The path as sent, decoded, still with the bucket of path style in it. What is signed. */
  path: string;
  query: [string, string][];
  /** Lower-case names; repeated headers joined by a comma. */
  headers: Record<string, string>;
  bucket: string | undefined;
  key: string | undefined;
  operation: OperationName;
  /** When it came in, milliseconds since the epoch by the server's clock. */
  receivedAt: number;
}

/** The value of a query parameter; undefined when it is not there. */
export function parameter(request: S3Request, name: string): string | undefined {
  return request.query.find(([candidate]) => candidate === name)?.[1];
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function parseQuery(text: string): [string, string][] | null {
  const pairs: [string, string][] = [];
  for (const piece of text.split('&')) {
    if (piece === '') continue;
    const at = piece.indexOf('=');
    const name = decode((at < 0 ? piece : piece.slice(0, at)).replaceAll('+', ' '));
    const value = decode((at < 0 ? '' : piece.slice(at + 1)).replaceAll('+', ' '));
    if (name === null || value === null) return null;
    pairs.push([name, value]);
  }
  return pairs;
}

function collectHeaders(raw: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase();
    // Node hands header bytes over as Latin-1; S3 reads them as UTF-8.
    const value = Buffer.from(raw[at + 1] ?? '', 'latin1').toString('utf8');
    headers[name] = headers[name] === undefined ? value : `${headers[name]},${value}`;
  }
  return headers;
}

/** The bucket that a virtual-host style `Host` names. */
function bucketOfHost(host: string): string | undefined {
  return /^(.+?)(\.s3)?\.localhost(:\d+)?$/.exec(host)?.[1];
}

/** Parses a request; null if its target cannot be decoded. */
export function parseRequest(
  message: IncomingMessage,
  { id, receivedAt }: { id: string; receivedAt: number },
): S3Request | null {
  const target = message.url ?? '/';
  const mark = target.indexOf('?');
  const path = decode(mark < 0 ? target : target.slice(0, mark));
  const query = parseQuery(mark < 0 ? '' : target.slice(mark + 1));
  if (path === null || query === null) return null;
  const headers = collectHeaders(message.rawHeaders);
  let bucket = bucketOfHost(headers.host ?? '');
  let key: string | undefined = path.slice(1);
  if (bucket === undefined) {
    const slash = key.indexOf('/');
    bucket = (slash < 0 ? key : key.slice(0, slash)) || undefined;
    key = slash < 0 ? undefined : key.slice(slash + 1);
  }
  key = key || undefined;
  const method = message.method ?? 'GET';
  const operation = operationOf({ method, query, headers, bucket, key });
  return { id, method, path, query, headers, bucket, key, operation, receivedAt };
}
