import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { SignatureV4 } from '@smithy/signature-v4';
import { systemClock } from '../../../foundation/domain/clock.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import type { FileLink } from '../destination.ts';
import { nameOf } from './answer.ts';
import { AnsweredError } from './error-answer.ts';
import {
  encode,
  queryString,
  type SdkRequest,
  type SendOptions,
  type SentAnswer,
} from './request-handler.ts';
import { readShortXml, textsBelow } from './xml.ts';

/** Keys of a store, own or issued for a role. */
interface AccessKeys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  /** When the store's clock ends the session of a role. */
  readonly expiration?: Date;
}

/** A request for one object, or for an upload of it. The key of a list is empty. */
export interface StoreRequest {
  readonly method: 'DELETE' | 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Names are lower-case. Undefined ones are left out. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: Uint8Array;
  /** Hexadecimal SHA-256 of the body, or `UNSIGNED-PAYLOAD`; default: computed here. */
  readonly payloadHash?: string;
}

export interface StoreAnswer {
  readonly headers: Readonly<Record<string, string>>;
  /** A stream if the request was sent with `maxBodyBytes` null. */
  readonly body: Buffer | IncomingMessage;
}

/** Sends requests to one bucket. The SDK's way to build and send them took most of the time of a small run. */
export interface StoreClient {
  /** @throws the errors that `toDestinationError` knows */
  send(request: StoreRequest, options: SendOptions): Promise<StoreAnswer>;
  /** An address that reads the object for `seconds`, or until the session of the keys ends. Sends nothing to the store. */
  link(key: string, seconds: number, query: Readonly<Record<string, string>>): Promise<FileLink>;
}

export interface StoreClientOptions {
  readonly bucket: string;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  /** Settings of the SDK's client, which finds credentials. */
  readonly sdk: S3ClientConfig & {
    readonly region: string;
    readonly endpoint?: string;
    readonly forcePathStyle: boolean;
  };
  /** Null: the SDK finds them, and renews them. */
  readonly keys: AccessKeys | null;
  readonly send: (request: SdkRequest, options: SendOptions) => Promise<SentAnswer>;
}

export function openStoreClient({
  bucket,
  headers: always,
  sdk,
  keys,
  send,
}: StoreClientOptions): StoreClient & {
  close(): void;
} {
  let client: S3Client | null = null;
  let place: Place | null = null;
  const credentials =
    keys ??
    ((): Promise<AccessKeys> => {
      client ??= new S3Client(sdk);
      return client.config.credentials();
    });
  const placeOfBucket = () => {
    place ??= placeOf(bucket, sdk, credentials);
    return place;
  };
  const unsignedOf = (
    { method, key, query = {}, headers }: StoreRequest,
    more: Readonly<Record<string, string>>,
  ) => {
    const { url, pathOf } = placeOfBucket();
    const { protocol, hostname, port } = url;
    const given = Object.entries({ ...always, ...headers }).filter(isGiven);
    return {
      ...{ protocol, hostname, method, path: pathOf(key), query },
      ...(port === '' ? {} : { port: Number(port) }),
      headers: { host: url.host, ...more, ...Object.fromEntries(given) },
    };
  };
  /** The lead of the store's clock over ours. */
  let aheadMs = 0;
  /** The same by its newest answer, also if it is small: a link may end within seconds. */
  let newestLeadMs = 0;
  return {
    async send(request, options) {
      const { body } = request;
      const hash = request.payloadHash ?? sha256(body ?? '');
      const unsigned = unsignedOf(request, { 'x-amz-content-sha256': hash });
      // In seconds.
      const signingDate = (systemClock.now() + aheadMs) / 1_000;
      const { headers } = await placeOfBucket().signer.sign(unsigned, { signingDate });
      headers['user-agent'] = 'app/sluice';
      if (body !== undefined) headers['content-length'] = String(body.length);
      const sent: SdkRequest = { ...unsigned, headers, ...(body === undefined ? {} : { body }) };
      const answer = await send(sent, options);
      const lead = leadOf(answer.headers.date);
      newestLeadMs = lead ?? newestLeadMs;
      if (lead !== null && Math.abs(lead - aheadMs) >= maxSkewMs) aheadMs = lead;
      return judge(answer, nameOf(sent));
    },
    async link(key, seconds, query) {
      const { url, signer } = placeOfBucket();
      const { expiration } = typeof credentials === 'function' ? await credentials() : credentials;
      const ours = systemClock.now();
      const now = ours + newestLeadMs;
      const lasts = expiration === undefined ? seconds : (expiration.getTime() - now) / 1_000;
      const expiresIn = Math.floor(Math.min(seconds, lasts));
      if (!(expiresIn > 0)) throw new SluiceError('destination.expired_credentials');
      const hash = { 'X-Amz-Content-Sha256': 'UNSIGNED-PAYLOAD' };
      const unsigned = unsignedOf({ method: 'GET', key, query }, hash);
      const signed = await signer.presign(unsigned, { signingDate: now / 1_000, expiresIn });
      const address = `${url.origin}${unsigned.path}?${queryString(signed.query ?? {})}`;
      return { url: address, expiresAt: ours + expiresIn * 1_000 };
    },
    close: () => client?.destroy(),
  };
}

const sha256 = (data: string | Uint8Array): string =>
  createHash('sha256').update(data).digest('hex');

const isGiven = (header: [string, string | undefined]): header is [string, string] =>
  header[1] !== undefined;

/** The signature of a request is valid for a quarter of an hour. */
const maxSkewMs = 5 * 60_000;

/** A signature has four digits for the year. */
const lastSignedMs = Date.parse('9999-12-31T00:00:00Z');

/** @param date the store's time, of an answer */
function leadOf(date: string | undefined): number | null {
  const theirs = Date.parse(date ?? '');
  return theirs >= 0 && theirs <= lastSignedMs ? theirs - systemClock.now() : null;
}

/** @throws AnsweredError if the store refused the request, or failed after it began to answer with 200 */
function judge({ statusCode, headers, body }: SentAnswer, operation: string): StoreAnswer {
  if (!Buffer.isBuffer(body)) return { headers, body };
  const isSuccess = statusCode >= 200 && statusCode < 300;
  const saysError =
    body.length > 0 && /<\/Error(?:Response)?>$/.test(body.toString('latin1', body.length - 16));
  if (isSuccess && !saysError) return { headers, body };
  const status = isSuccess ? 503 : statusCode;
  throw new AnsweredError(status, headers, body.toString('utf8'), operation);
}

/** The texts of an answer's elements below its root; empty if it is not XML. */
export function textsOf(answer: StoreAnswer): ReadonlyMap<string, string> {
  const document = readShortXml(answer.body.toString('utf8'));
  return document ? textsBelow(document) : new Map();
}

interface Place {
  readonly url: URL;
  readonly pathOf: (key: string) => string;
  readonly signer: SignatureV4;
}

let shared: S3Client['config'] | null = null;

/** The SDK knows the hosts of AWS's regions, and which buckets can be in a host name. */
function placeOf(
  bucket: string,
  { region, endpoint, forcePathStyle }: StoreClientOptions['sdk'],
  credentials: AccessKeys | (() => Promise<AccessKeys>),
): Place {
  shared ??= new S3Client({ region: 'us-east-1' }).config;
  const resolved = shared.endpointProvider({
    ...{ Bucket: bucket, Region: region, ForcePathStyle: forcePathStyle },
    ...(endpoint === undefined ? {} : { Endpoint: endpoint }),
    ...{ UseFIPS: false, UseDualStack: false, Accelerate: false, UseGlobalEndpoint: false },
    ...{ DisableMultiRegionAccessPoints: true, DisableS3ExpressSessionAuth: true },
    UseArnRegion: false,
  });
  const url = new URL(resolved.url.href);
  const [scheme] = (resolved.properties?.authSchemes ?? []) as readonly {
    readonly signingName?: string;
    readonly signingRegion?: string;
  }[];
  const signer = new SignatureV4({
    ...{ region: scheme?.signingRegion ?? region, service: scheme?.signingName ?? 's3' },
    ...{ credentials, sha256: shared.sha256 },
    // A path is signed as it is sent.
    ...{ uriEscapePath: false, applyChecksum: false },
  });
  const folder = url.pathname.replace(/\/$/, '');
  return { url, signer, pathOf: (key) => `${folder}/${key.split('/').map(encode).join('/')}` };
}
