import { crc32 } from 'node:zlib';
import type { Subject } from '../../conformance/s3-protocol-subject.ts';
import type { RawAnswer } from '../../support/s3-server/raw-request.ts';

/** By each question: what a store does with it, in a few words. */
export type Facts = Readonly<Record<string, (subject: Subject) => Promise<string>>>;

export const wrongTag = '00000000000000000000000000000000';
export const fiveMiB = Buffer.alloc(5 * 1024 ** 2, 'x');

/** Status and code. A 200 that holds an error counts as the error. */
export function said({ status, code }: RawAnswer): string {
  return code === undefined ? `${status}` : `${status} ${code}`;
}

/** A Complete can fail under a status of success. */
export const succeeded = ({ status, code }: RawAnswer): boolean =>
  status < 300 && code === undefined;

/** How many of eight writers at once succeed. What the others hear can differ from time to time. */
export async function race(write: (writer: number) => Promise<RawAnswer>): Promise<string> {
  const answers = await Promise.all(Array.from({ length: 8 }, (_, writer) => write(writer)));
  return `${answers.filter(succeeded).length} of 8 succeed`;
}

export const tagOf = ({ headers }: RawAnswer): string => headers.etag ?? '';
export const bare = (tag: string): string => tag.replaceAll('"', '');
export const crc32Of = (bytes: Buffer): string => {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(bytes));
  return sum.toString('base64');
};
export const element = (text: string, name: string): string | undefined => elements(text, name)[0];

/** The texts of all elements of a name. */
export function elements(text: string, name: string): readonly string[] {
  const found = text.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'));
  return [...found].map(([, inner = '']) =>
    inner.replace(/&(\w+);/g, (entity, known) => entities[known] ?? entity),
  );
}

const entities: Record<string, string> = { quot: '"', apos: "'", amp: '&', lt: '<', gt: '>' };

export function put(
  subject: Subject,
  key: string,
  body: string,
  headers: Record<string, string> = {},
): Promise<RawAnswer> {
  return subject.raw({ method: 'PUT', key, body, headers });
}

/** The answers to the same put of "second" over "first", and what is there after it. */
export async function replace(
  subject: Subject,
  key: string,
  conditions: (tag: string) => Record<string, string>,
): Promise<string> {
  const first = await put(subject, key, 'first');
  const second = await put(subject, key, 'second', conditions(tagOf(first)));
  const { text } = await subject.raw({ key });
  const refused = !succeeded(second);
  // The answer and the effect can disagree.
  const odd = refused === (text === 'first') ? '' : `, but "${text}" is there`;
  return `${said(second)}${odd}`;
}

export interface Begun {
  readonly id: string;
  readonly answer: RawAnswer;
}

export async function begin(
  subject: Subject,
  key: string,
  headers: Record<string, string> = {},
): Promise<Begun> {
  const answer = await subject.raw({ method: 'POST', key, query: [['uploads', '']], headers });
  return { id: element(answer.text, 'UploadId') ?? '', answer };
}

export function sendPart(
  subject: Subject,
  key: string,
  id: string,
  number: number,
  body: Buffer | string,
  headers: Record<string, string> = {},
): Promise<RawAnswer> {
  const query: [string, string][] = [
    ['partNumber', `${number}`],
    ['uploadId', id],
  ];
  return subject.raw({ method: 'PUT', key, query, body, headers });
}

export interface NamedPart {
  readonly tag: string;
  /** Absent: its place among the parts. */
  readonly number?: number;
  readonly crc32?: string;
}

export function complete(
  subject: Subject,
  key: string,
  id: string,
  parts: readonly NamedPart[],
  headers: Record<string, string> = {},
): Promise<RawAnswer> {
  const listed = parts.map(({ tag, number, crc32: sum }, index) => {
    const checksum = sum === undefined ? '' : `<ChecksumCRC32>${sum}</ChecksumCRC32>`;
    return `<Part><PartNumber>${number ?? index + 1}</PartNumber><ETag>${tag}</ETag>${checksum}</Part>`;
  });
  const body = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${listed.join('')}</CompleteMultipartUpload>`;
  return subject.raw({ method: 'POST', key, query: [['uploadId', id]], body, headers });
}

export const byId = (id: string): [string, string][] => [['uploadId', id]];

export function abort(subject: Subject, key: string, id: string): Promise<RawAnswer> {
  return subject.raw({ method: 'DELETE', key, query: byId(id) });
}

/** An upload of one small part, ready to be completed. */
export async function uploadOne(subject: Subject, key: string, text: string) {
  const { id } = await begin(subject, key);
  const part = await sendPart(subject, key, id, 1, text);
  return { id, parts: [{ tag: tagOf(part) }] };
}

/** Completing "second" over "first" under a condition. */
export async function completeOver(
  subject: Subject,
  key: string,
  conditions: (tag: string) => Record<string, string>,
): Promise<string> {
  const first = await put(subject, key, 'first');
  const { id, parts } = await uploadOne(subject, key, 'second');
  const answer = await complete(subject, key, id, parts, conditions(tagOf(first)));
  const { text } = await subject.raw({ key });
  const refused = !succeeded(answer);
  const odd = refused === (text === 'first') ? '' : `, but "${text}" is there`;
  if (refused) await abort(subject, key, id);
  return `${said(answer)}${odd}`;
}

/** How a tag is written: quotes, and what is between them. */
export function formOf(tag: string | undefined): string {
  if (tag === undefined || tag === '') return 'none';
  const digits = bare(tag).replace(/^[0-9a-f]{32}/, 'hex32');
  return tag.startsWith('"') ? `"${digits}"` : digits;
}

/** An error's body: its elements in order, or what else it is. */
export function bodyForm({ text, headers }: RawAnswer): string {
  if (text === '') return 'no body';
  const names = [...text.matchAll(/<([A-Za-z]+)[^>]*>/g)].map(([, name]) => name);
  const type = headers['content-type'] ?? 'no type';
  return names[0] === 'Error' ? `${type}: ${names.slice(1).join(' ')}` : `${type}, not XML`;
}
