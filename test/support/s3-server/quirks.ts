import type { S3Response } from './context.ts';
import { S3Error } from './errors.ts';
import type { S3Request } from './request.ts';

/** How stores with S3's protocol differ from S3. Everything else is as in S3. */
export interface S3Quirks {
  /** An If-Match with its quotes never fits: Ceph RGW 16. */
  quotedIfMatch?: 'refuse';
  /** On PutObject and CompleteMultipartUpload: the condition is ignored, or answered 501. */
  ifNoneMatch?: 'ignore' | 'refuse';
  ifMatch?: 'ignore' | 'refuse';
  /**
   * CreateMultipartUpload does not know checksums and does not echo them; `drop-parts`: and the list
   * of a completion loses the parts that name one, as OpenStack Swift does it.
   */
  checksums?: 'ignore' | 'drop-parts';
  /** A bucket with Object Lock: a put without Content-MD5 and x-amz-checksum-* is refused. */
  objectLock?: 'require-checksum';
  /** All parts of an upload but the last must have one size: Cloudflare R2. */
  parts?: 'equal';
  /** The answer to a HEAD does not say how long the object is. */
  headLength?: 'absent';
  /** Names of elements have a prefix, and texts are CDATA. */
  xml?: 'prefixed';
  /** Each request must name this account as the owner of the bucket. */
  owner?: string;
  /** Headers without which a policy of the bucket denies each new object. */
  requires?: Readonly<Record<string, string>>;
  /** And each part: at AWS both are s3:PutObject. */
  requiresOfParts?: true;
  /** Conditions of CompleteMultipartUpload alone. */
  completeConditions?: 'ignore' | 'refuse';
  /** A missing object is answered 404 without a body. */
  missingObject?: 'empty';
  /** ListMultipartUploads is answered 501. */
  listUploads?: 'refuse';
  /**
   * A part that comes after its upload was completed is taken. If its bytes differ, the object cannot
   * be read any more: OpenStack Swift.
   */
  lateParts?: 'take';
  /** The first answer to a completion has an empty ETag, the next ones have one without quotes: Ceph RGW 16. */
  completionTag?: 'empty';
  /** Completing an unknown upload is answered 500, listing its parts NoSuchKey: Ceph RGW 16. */
  unknownUploads?: 'fail';
  /** Aborting an upload that is complete is answered NoSuchKey: OpenStack Swift. */
  abortOfCompleted?: 'no-such-key';
}

/** The answer as a store writes it that is not S3. */
export function disguise(quirks: S3Quirks, answer: S3Response, method = 'GET'): S3Response {
  const { body, headers } = answer;
  const xml = quirks.xml && typeof body === 'string' ? { body: prefixed(body) } : {};
  const length =
    quirks.headLength && method === 'HEAD' ? { 'content-length': undefined } : undefined;
  return { ...answer, ...xml, headers: { ...headers, ...length } };
}

function prefixed(document: string): string {
  return document
    .replace(/<(\/?)([A-Za-z])/g, '<$1ns0:$2')
    .replace(/ xmlns=/g, ' xmlns:ns0=')
    .replace(/>([^<]+)<\//g, (_, text: string) => `><![CDATA[${unescaped(text)}]]></`);
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescaped(text: string): string {
  return text.replace(/&(\w+);/g, (whole, name: string) => entities[name] ?? whole);
}

/** @throws S3Error if a policy of the bucket denies the request */
export function obeyPolicy(
  { operation, headers }: S3Request,
  { owner, requires = {}, requiresOfParts }: S3Quirks,
): void {
  const creates =
    operation === 'PutObject' ||
    operation === 'CreateMultipartUpload' ||
    (requiresOfParts && operation === 'UploadPart');
  const wanted = {
    ...(creates ? requires : {}),
    ...(owner === undefined ? {} : { 'x-amz-expected-bucket-owner': owner }),
  };
  const isDenied = Object.entries(wanted).some(([name, value]) => headers[name] !== value);
  if (isDenied) throw new S3Error('AccessDenied');
}

/** @throws S3Error for a put without a checksum into a bucket with Object Lock */
export function requireChecksum({ headers }: S3Request, { objectLock }: S3Quirks): void {
  if (!objectLock || headers['content-md5'] !== undefined) return;
  if (Object.keys(headers).some((name) => /^x-amz-checksum-(?!algorithm|type)/.test(name))) return;
  throw new S3Error('InvalidRequest', {
    message:
      'Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters',
  });
}
