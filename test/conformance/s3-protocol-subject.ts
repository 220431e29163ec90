import { S3Client } from '@aws-sdk/client-s3';
import type { S3Credentials } from '../support/s3-server/authentication.ts';
import { type RawAnswer, type RawRequest, sendRaw } from '../support/s3-server/raw-request.ts';

interface RunningTarget {
  endpoint: string;
  region: string;
  bucket: string;
  credentials: S3Credentials;
  close(): Promise<void>;
}

/** A running server, seen through the client of AWS. */
export interface Subject extends RunningTarget {
  s3: S3Client;
  /** A request by hand on `/<bucket>/<key>`, signed rightly unless the options say otherwise. */
  raw(options: Partial<RawRequest> & { key?: string }): Promise<RawAnswer>;
}

export function openSubject(target: RunningTarget): Subject {
  const { endpoint, region, credentials, bucket } = target;
  return {
    ...target,
    s3: new S3Client({ endpoint, region, credentials, forcePathStyle: true, maxAttempts: 1 }),
    raw: ({ key = '', headers = {}, ...options }) =>
      sendRaw({
        ...{ endpoint, region, credentials, method: 'GET' },
        path: key === '' ? `/${bucket}` : `/${bucket}/${key}`,
        // Some servers take no body without a type.
        headers:
          options.method === 'PUT'
            ? { 'content-type': 'application/octet-stream', ...headers }
            : headers,
        ...options,
      }),
  };
}
