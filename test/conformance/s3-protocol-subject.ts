import { S3Client, type S3ServiceException } from '@aws-sdk/client-s3';
import type { S3Credentials } from '../support/s3-server/authentication.ts';
import { type RawAnswer, type RawRequest, sendRaw } from '../support/s3-server/raw-request.ts';

/** A running server, seen through a client. */
export interface Subject {
  s3: S3Client;
  bucket: string;
  endpoint: string;
  credentials: S3Credentials;
  region: string;
  /** A request by hand on `/<bucket>/<key>`, signed rightly unless the options say otherwise. */
  raw(options: Partial<RawRequest> & { key?: string }): Promise<RawAnswer>;
  /** A client of other make. */
  client(options: ClientOptions): S3Client;
}

interface ClientOptions {
  credentials?: S3Credentials;
  region?: string;
}

/** What a server must do, by its name. */
export type Rules = Record<string, (subject: Subject) => Promise<void>>;

interface RunningTarget {
  endpoint: string;
  region: string;
  bucket: string;
  credentials: S3Credentials;
  close(): Promise<void>;
}

export function openSubject(target: RunningTarget): Subject {
  const client = (options: ClientOptions): S3Client =>
    new S3Client({
      endpoint: target.endpoint,
      region: options.region ?? target.region,
      credentials: options.credentials ?? target.credentials,
      forcePathStyle: true,
      maxAttempts: 1,
    });
  return {
    ...target,
    s3: client({}),
    client,
    raw: ({ key = '', headers = {}, ...options }) =>
      sendRaw({
        endpoint: target.endpoint,
        method: 'GET',
        path: key === '' ? `/${target.bucket}` : `/${target.bucket}/${key}`,
        credentials: target.credentials,
        region: target.region,
        // Some servers take no body without a type.
        headers:
          options.method === 'PUT'
            ? { 'content-type': 'application/octet-stream', ...headers }
            : headers,
        ...options,
      }),
  };
}

/** The status and code of a refused command, e.g. `412 PreconditionFailed`. */
export async function refusal(command: Promise<unknown>): Promise<string> {
  try {
    await command;
  } catch (error) {
    const { $metadata, name } = error as S3ServiceException;
    return `${$metadata?.httpStatusCode} ${name}`;
  }
  return 'not refused';
}
