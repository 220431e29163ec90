import type { IncomingMessage } from 'node:http';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { isForeignBody, notAStore, recogniseStranger, strangerOf } from './not-the-store.ts';
import { printXml, readXml } from './xml.ts';
import type { Readable } from 'node:stream';

/** The longest answers in XML are lists: see `keysPerPage`. */
export const maxXmlBytes = 1024 * 1024;

interface NamedRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly method: string;
  readonly path: string;
  readonly query?: Record<string, string | readonly string[] | null>;
}

/**
 * Reads the body of a successful answer to its end. XML is read within the bounds of `readXml` and printed anew: so the
 * SDK parses a document of few elements without anything that takes its parser long.
 *
 * @throws SluiceError `destination.invalid_answer` if there are more than `maxBytes`, and the connection
 *   ends; `destination.unavailable` if XML is expected and the body is XML that was cut off; `destination.not_a_store` if it is anything else
 */
export async function readAnswer(
  response: IncomingMessage,
  request: NamedRequest,
  maxBytes: number,
): Promise<Buffer> {
  const body = await collectBody(response, maxBytes, {
    tooLong() {
      const detail = `the answer to ${nameOf(request)} is longer than ${maxBytes / 1024 ** 2} MiB`;
      return new SluiceError('destination.invalid_answer', detail);
    },
    cutOff: (cause) => cause,
  });
  if (maxBytes !== maxXmlBytes) return body;
  const isList = nameOf(request).startsWith('List');
  if (body.length === 0 && !isList) return body;
  const text = body.toString('utf8');
  const document = await readXml(text);
  const answer = strangerOf(response, request, text);
  const isForeign =
    document === null
      ? isForeignBody(answer)
      : document.name === 'html' || (isList && !/Result$|^Error$/.test(document.name));
  // The headers have the store's answer to a put.
  if (isForeign && response.headers.etag === undefined) {
    throw notAStore(`${recogniseStranger(answer)}`);
  }
  if (document !== null) return Buffer.from(printXml(document));
  if (request.method === 'PUT' || request.method === 'DELETE') return Buffer.alloc(0);
  const detail = `HTTP ${response.statusCode}, but the answer to ${nameOf(request)} is not XML`;
  throw new SluiceError('destination.unavailable', detail);
}

/** Tags and upload ids are kept in our tables and their indexes. Those of stores have about a hundred bytes. */
const maxNameBytes = 1_024;

/**
 * @param what the store sent, for the error
 * @throws SluiceError `destination.invalid_answer` if it is too long to be kept
 */
export function checkLength(what: string, text: string | undefined): void {
  if (Buffer.byteLength(text ?? '') <= maxNameBytes) return;
  const detail = `${what} is longer than ${maxNameBytes} bytes`;
  throw new SluiceError('destination.invalid_answer', detail);
}

export function nameOf({ method, query = {} }: NamedRequest): string {
  const given = query['x-id'];
  if (typeof given === 'string') return given;
  const has = (name: string) => Object.hasOwn(query, name);
  if (method === 'GET' && has('list-type')) return 'ListObjectsV2';
  if (method === 'GET' && has('uploads')) return 'ListMultipartUploads';
  if (method === 'GET' && has('uploadId')) return 'ListParts';
  if (method === 'POST' && has('uploads')) return 'CreateMultipartUpload';
  if (method === 'POST' && has('uploadId')) return 'CompleteMultipartUpload';
  return method === 'HEAD' ? 'HeadObject' : method;
}

export interface BodyErrors {
  readonly tooLong: () => Error;
  /** @param bytes that came before `cause` */
  readonly cutOff: (cause: unknown, bytes: number) => unknown;
}

/**
 * Reads a body to its end. Its pieces are joined at once: a store may send one byte at a time, and an
 * object per byte would need a hundred times the memory.
 *
 * @throws one of `errors`; the connection ends
 */
export async function collectBody(
  body: Readable,
  maxBytes: number,
  errors: BodyErrors,
): Promise<Buffer> {
  let joined = Buffer.allocUnsafe(4_096);
  let bytes = 0;
  let isTooLong = false;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      const needed = bytes + chunk.length;
      isTooLong = needed > maxBytes;
      // Leaving the loop destroys the connection.
      if (isTooLong) break;
      if (needed > joined.length) {
        const larger = Buffer.allocUnsafe(Math.max(needed, Math.min(maxBytes, 2 * joined.length)));
        joined.copy(larger, 0, 0, bytes);
        joined = larger;
      }
      chunk.copy(joined, bytes);
      bytes = needed;
    }
  } catch (cause) {
    throw errors.cutOff(cause, bytes);
  }
  if (isTooLong) throw errors.tooLong();
  return joined.subarray(0, bytes);
}
