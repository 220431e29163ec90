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
export async function readErrorAnswer(
  response: IncomingMessage,
  method: string,
): Promise<Uint8Array> {
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

const token =
  /<\?[^>]*\?>|<!--[\s\S]*?-->|<(\/?)([A-Za-z_][\w.:-]*)((?:\s[^<>]*?)?)(\/?)>|([^<]+)/gy;

/** Where S3 and STS put the code of an error. */
const codePaths = new Set(['Error/Code', 'ErrorResponse/Error/Code']);

/**
 * The code that an error document names.
 *
 * @returns null unless `text` is a whole, well-formed document of S3's or STS's form
 */
export function findErrorCode(text: string): string | null {
  const open: string[] = [];
  let code = '';
  let roots = 0;
  let end = 0;
  token.lastIndex = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    end = token.lastIndex;
    const [, closing, name, , selfClosing, words] = match;
    if (words !== undefined) {
      if (open.length === 0 && words.replace('\ufeff', '').trim() !== '') return null;
      if (codePaths.has(open.join('/'))) code += words;
    }
    if (name === undefined) continue;
    if (closing) {
      if (open.pop() !== name) return null;
      continue;
    }
    if (open.length === 0) roots += 1;
    if (!selfClosing) open.push(name);
  }
  const isWhole = end === text.length && open.length === 0 && roots === 1;
  return isWhole && code.trim() !== '' ? code.trim() : null;
}
