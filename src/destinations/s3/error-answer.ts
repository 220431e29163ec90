import type { IncomingMessage } from 'node:http';
import { collectBody } from './collect-body.ts';
import { StalledError } from './stall-watch.ts';

/** Longer than any error document of a store. */
const maxBodyBytes = 1024 * 1024;

/**
 * An error answer that does not say why: cut off, empty, too long, or not a store's error document. Its
 * status alone may come from a proxy.
 */
export class UnreadAnswer extends Error {
  readonly status: number;
  /** Whether the body was read to its end. */
  readonly whole: boolean;
  /** Whether the request was a HEAD, whose answer has no body. */
  readonly toHead: boolean;

  constructor(status: number, what: string, whole: boolean, toHead = false) {
    super(`HTTP ${status} ${what}`);
    this.name = 'UnreadAnswer';
    this.status = status;
    this.whole = whole;
    this.toHead = toHead;
  }
}

/**
 * Reads the body of an error answer. If the SDK cannot read the body, it invents an error name from the
 * status, so we check the body first.
 *
 * @returns the whole body: an error document of S3 or STS with its code
 * @throws UnreadAnswer if it is anything else; StalledError
 */
export async function readErrorAnswer(response: IncomingMessage, method: string): Promise<Buffer> {
  const status = response.statusCode ?? 0;
  if (method === 'HEAD') {
    response.resume();
    throw new UnreadAnswer(status, 'to a HEAD, which has no body', true, true);
  }
  const body = await collectBody(response, maxBodyBytes, {
    tooLong: () =>
      new UnreadAnswer(status, `with a body of more than ${maxBodyBytes} bytes`, false),
    cutOff: (cause, bytes) =>
      cause instanceof StalledError
        ? cause
        : new UnreadAnswer(status, `with a body that was cut off after ${bytes} bytes`, false),
  });
  if (body.length === 0) throw new UnreadAnswer(status, 'without a body', true);
  if (findErrorCode(body.toString('utf8')) === null) {
    const type = response.headers['content-type']?.split(';')[0] ?? 'no content type';
    throw new UnreadAnswer(status, `with a body (${type}) that is no error document of S3`, true);
  }
  return body;
}

/**
 * An error document of a store, read whole. Has the form of the SDK's errors, without the request, which has
 * the signature.
 */
export class AnsweredError extends Error {
  readonly $fault: 'client' | 'server';
  readonly $metadata: { readonly httpStatusCode: number; readonly requestId?: string };
  readonly $response: { readonly headers: Readonly<Record<string, string>> };
  readonly Region?: string;

  constructor(status: number, headers: Readonly<Record<string, string>>, document: string) {
    const { texts } = readXml(document) ?? { texts: new Map<string, string>() };
    const code = texts.get('Code')?.trim() || 'UnknownError';
    super(texts.get('Message')?.trim() || code);
    this.name = code;
    this.$fault = status >= 500 ? 'server' : 'client';
    const requestId = headers['x-amz-request-id'];
    this.$metadata = { httpStatusCode: status, ...(requestId ? { requestId } : {}) };
    this.$response = { headers };
    const region = texts.get('Region');
    if (region) this.Region = region;
  }
}

const token =
  /<\?[^>]*\?>|<!--[\s\S]*?-->|<(\/?)([A-Za-z_][\w.:-]*)((?:\s[^<>]*?)?)(\/?)>|([^<]+)/gy;

/** Of a document from S3 or STS: what we ask for is in elements below the root, or one further down. */
export interface XmlTexts {
  readonly root: string;
  /** By their path below the root, such as `Code` or `Error/Code`; not of deeper ones. */
  readonly texts: ReadonlyMap<string, string>;
}

const maxDepth = 3;

/** An answer that we read has about ten elements. */
const maxTexts = 100;

/** @returns null unless `text` is one whole, well-formed document */
export function readXml(text: string): XmlTexts | null {
  const open: string[] = [];
  const texts = new Map<string, string>();
  let root = '';
  let roots = 0;
  let end = 0;
  token.lastIndex = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    end = token.lastIndex;
    const [, closing, name, , selfClosing, words] = match;
    if (words !== undefined) {
      if (open.length === 0 && words.replace('\ufeff', '').trim() !== '') return null;
      if (open.length > 1 && open.length <= maxDepth) {
        const path = open.slice(1).join('/');
        if (texts.size < maxTexts) texts.set(path, (texts.get(path) ?? '') + decodeXml(words));
      }
    }
    if (name === undefined) continue;
    if (closing) {
      if (open.pop() !== name) return null;
      continue;
    }
    if (open.length === 0) {
      roots += 1;
      root = name;
    }
    if (!selfClosing) open.push(name);
  }
  const isWhole = end === text.length && open.length === 0 && roots === 1;
  return isWhole ? { root, texts } : null;
}

const entities: Readonly<Record<string, string>> = {
  ...{ lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" },
};

function decodeXml(words: string): string {
  return words.replace(
    /&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#x([\da-f]{1,6}));/gi,
    (all, ...of) => {
      const [name, decimal, hex] = of as readonly (string | undefined)[];
      if (name !== undefined) return entities[name.toLowerCase()] ?? all;
      const point = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
      return point <= 0x10ffff ? String.fromCodePoint(point) : all;
    },
  );
}

/** Where S3 and STS put the code of an error. */
const codePaths = new Map([
  ['Error', 'Code'],
  ['ErrorResponse', 'Error/Code'],
]);

/**
 * The code that an error document names.
 *
 * @returns null unless `text` is a whole, well-formed document of S3's or STS's form
 */
export function findErrorCode(text: string): string | null {
  const found = readXml(text);
  const code = found?.texts.get(codePaths.get(found.root) ?? '')?.trim();
  return code ? code : null;
}
