import type { IncomingMessage } from 'node:http';
import { SluiceError } from '../../domain/errors.ts';

/** The longest answers in XML are lists: see `keysPerPage`. */
export const maxXmlBytes = 1024 * 1024;

/** The parts of a request that say which one it is. */
interface NamedRequest {
  readonly method: string;
  readonly path: string;
  readonly query?: Record<string, string | readonly string[] | null>;
}

/**
 * Reads the body of a successful answer to its end, before anything parses it: parsing blocks the event
 * loop for as long as the store makes the body.
 *
 * @throws SluiceError `destination.invalid_answer` if there are more than `maxBytes`; the connection ends
 */
export async function readAnswer(
  response: IncomingMessage,
  request: NamedRequest,
  maxBytes: number,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    bytes += (chunk as Buffer).length;
    // Leaving the loop destroys the connection.
    if (bytes > maxBytes) {
      const detail = `the answer to ${nameOf(request)} is longer than ${maxBytes / 1024 ** 2} MiB`;
      throw new SluiceError('destination.invalid_answer', detail);
    }
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

/** The operation that a request asks for. */
export function nameOf({ method, query = {} }: NamedRequest): string {
  const given = query['x-id'];
  if (typeof given === 'string') return given;
  const has = (name: string) => Object.hasOwn(query, name);
  if (method === 'GET' && has('list-type')) return 'ListObjectsV2';
  if (method === 'GET' && has('uploads')) return 'ListMultipartUploads';
  if (method === 'GET' && has('uploadId')) return 'ListParts';
  if (method === 'POST' && has('uploads')) return 'CreateMultipartUpload';
  if (method === 'POST' && has('uploadId')) return 'CompleteMultipartUpload';
  return method;
}
