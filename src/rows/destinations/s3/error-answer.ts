import type { IncomingMessage } from 'node:http';
import { collectBody } from './answer.ts';
import { type Asked, recogniseStranger, strangerOf } from './not-the-store.ts';
import { StalledError } from './stall-watch.ts';
import { printXml, readShortXml, textsBelow, type XmlElement } from './xml.ts';

/** Longer than any error document of a store. */
const maxBodyBytes = 64 * 1024;

/** An error answer without a store's error document: cut off, empty, or too long. It may be a proxy's. */
export class UnreadAnswer extends Error {
  readonly status: number;
  /** True if the body was read to its end. */
  readonly whole: boolean;
  readonly facts: UnreadFacts;

  constructor(status: number, what: string, whole: boolean, facts: UnreadFacts = {}) {
    super(`HTTP ${status} ${what}`);
    this.name = 'UnreadAnswer';
    this.status = status;
    this.whole = whole;
    this.facts = facts;
  }
}

/** The request, and where the store sends its client. */
interface UnreadFacts {
  /** Who answered instead of the store, and what to change; missing or null if that is not known. */
  readonly stranger?: string | null;
  readonly operation?: string | null;
  readonly location?: string | undefined;
  readonly region?: string | undefined;
}

/**
 * Reads the body of an error answer. If the SDK cannot read the body, it invents an error name from the
 * status, so we check the body first.
 *
 * @returns the whole document, printed anew: an error document of S3 or STS with its code
 * @throws UnreadAnswer if it is anything else; StalledError
 */
export async function readErrorAnswer(
  response: IncomingMessage,
  request: Asked & { readonly method: string },
  operation: string | null = null,
): Promise<Buffer> {
  const status = response.statusCode ?? 0;
  const { location, 'x-amz-bucket-region': named } = response.headers;
  const region = typeof named === 'string' ? named : undefined;
  const facts = { operation, location, region };
  const strangerWith = (body: string) =>
    region === undefined ? recogniseStranger(strangerOf(response, request, body)) : null;
  const type = response.headers['content-type']?.split(';')[0] ?? 'no content type';
  if (request.method === 'HEAD') {
    response.resume();
    throw new UnreadAnswer(status, 'to a HEAD, which has no body', true, facts);
  }
  const body = await collectBody(response, maxBodyBytes, {
    tooLong: () =>
      new UnreadAnswer(status, `with a body of more than ${maxBodyBytes} bytes`, false, {
        ...facts,
        // A page may be long.
        stranger: /html/i.test(type) ? strangerWith('<html>') : null,
      }),
    cutOff: (cause, bytes) =>
      cause instanceof StalledError
        ? cause
        : new UnreadAnswer(status, `with a body that was cut off after ${bytes} bytes`, false),
  });
  if (body.length === 0) {
    throw new UnreadAnswer(status, 'without a body', true, {
      ...facts,
      stranger: strangerWith(''),
    });
  }
  const text = body.toString('utf8');
  const document = readShortXml(text);
  if (document === null || codeIn(document) === null) {
    const what = `with a body (${type}) that is no error document of S3`;
    throw new UnreadAnswer(status, what, true, { ...facts, stranger: strangerWith(text) });
  }
  // The SDK may parse it again.
  return Buffer.from(printXml(document));
}

/** An error document of a store, read whole, in the form of the SDK's errors without the signed request. */
export class AnsweredError extends Error {
  readonly $fault: 'client' | 'server';
  readonly $metadata: { readonly httpStatusCode: number; readonly requestId?: string };
  readonly $response: {
    readonly statusCode: number;
    readonly headers: Readonly<Record<string, string>>;
  };
  readonly Region?: string;
  readonly Endpoint?: string;
  readonly operation: string | null;

  constructor(
    status: number,
    headers: Readonly<Record<string, string>>,
    document: string,
    operation: string | null = null,
  ) {
    const root = readShortXml(document);
    const texts = root ? textsBelow(root) : new Map<string, string>();
    const codePath = codePaths.get(root?.name ?? '') ?? 'Code';
    const textOf = (name: string) => texts.get(codePath.replace(/Code$/, name))?.trim();
    const code = textOf('Code') || 'UnknownError';
    super(textOf('Message') || code);
    this.name = code;
    this.$fault = status >= 500 ? 'server' : 'client';
    const requestId = headers['x-amz-request-id'];
    this.$metadata = { httpStatusCode: status, ...(requestId ? { requestId } : {}) };
    this.$response = { statusCode: status, headers };
    this.operation = operation;
    const [region, endpoint] = [textOf('Region'), textOf('Endpoint')];
    if (region) this.Region = region;
    if (endpoint) this.Endpoint = endpoint;
  }
}

/** Where S3 and STS put the code of an error. Some stores answer as STS does. */
const codePaths = new Map([
  ['Error', 'Code'],
  ['ErrorResponse', 'Error/Code'],
]);

/** The code in a whole, well-formed document of S3's or STS's form; else null. @internal for its tests */
export function findErrorCode(text: string): string | null {
  const document = readShortXml(text);
  return document && codeIn(document);
}

function codeIn(document: XmlElement): string | null {
  const code = textsBelow(document)
    .get(codePaths.get(document.name) ?? '')
    ?.trim();
  return code ? code : null;
}
