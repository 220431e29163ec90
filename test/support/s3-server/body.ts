import { createHash } from 'node:crypto';
import type { Authenticated } from './authentication.ts';
import { crc32Of } from './checksums.ts';
import { S3Error } from './errors.ts';
import type { S3Request } from './request.ts';

/** A body that was read whole and agrees with everything the request said about it. */
export interface VerifiedBody {
  chunks: Buffer[];
  bytes: number;
  md5: Buffer;
  /** Its CRC32 in base64, if a header named it. */
  crc32: string | undefined;
}

function declaredBytes({ headers, method }: S3Request): number {
  const length = headers['content-length'];
  if (length !== undefined && /^\d+$/.test(length)) return Number(length);
  if (headers['transfer-encoding'] !== undefined) throw new S3Error('NotImplemented');
  if (method !== 'PUT') return 0;
  throw new S3Error('MissingContentLength');
}

function declaredCrc32({ headers }: S3Request): string | undefined {
  const value = headers['x-amz-checksum-crc32'];
  if (value === undefined) {
    if (headers['x-amz-sdk-checksum-algorithm'] === undefined) return undefined;
    throw new S3Error('InvalidRequest', { message: 'Expecting a single x-amz-checksum- header.' });
  }
  if (!/^[A-Za-z0-9+/]{5}[AQgw]==$/.test(value)) {
    throw new S3Error('InvalidRequest', {
      message: 'Value for x-amz-checksum-crc32 header is invalid.',
    });
  }
  return value;
}

function checkContentMd5(request: S3Request, md5: Buffer): void {
  const given = request.headers['content-md5'];
  if (given === undefined) return;
  if (Buffer.from(given, 'base64').length !== 16) throw new S3Error('InvalidDigest');
  if (given !== md5.toString('base64')) {
    throw new S3Error('BadDigest', {
      message: 'The Content-MD5 you specified did not match what we received.',
    });
  }
}

/**
 * Reads a body to its end, hashing as it flows, and throws if it does not keep what the headers promised: length,
 * SHA-256, Content-MD5, x-amz-checksum-crc32. The last is left alone with `ignoreChecksums`: it may be about something
 * else than this body.
 */
export async function readBody(
  request: S3Request,
  { payloadHash }: Authenticated,
  source: AsyncIterable<Buffer>,
  { ignoreChecksums = false }: { ignoreChecksums?: boolean } = {},
): Promise<VerifiedBody> {
  if (payloadHash !== 'UNSIGNED-PAYLOAD' && !/^[0-9a-f]{64}$/.test(payloadHash)) {
    throw new S3Error('InvalidArgument', {
      message: 'x-amz-content-sha256 must be UNSIGNED-PAYLOAD or a valid sha256 value.',
    });
  }
  const expectedBytes = declaredBytes(request);
  const crc32 = ignoreChecksums ? undefined : declaredCrc32(request);

  const chunks: Buffer[] = [];
  let bytes = 0;
  const md5 = createHash('md5');
  const sha256 = createHash('sha256');
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > expectedBytes) throw new S3Error('IncompleteBody');
    chunks.push(chunk);
    md5.update(chunk);
    sha256.update(chunk);
  }

  if (bytes !== expectedBytes) throw new S3Error('IncompleteBody');
  const computed = sha256.digest('hex');
  if (payloadHash !== 'UNSIGNED-PAYLOAD' && computed !== payloadHash) {
    throw new S3Error('XAmzContentSHA256Mismatch', {
      details: { ClientComputedContentSHA256: payloadHash, S3ComputedContentSHA256: computed },
    });
  }
  const digest = md5.digest();
  checkContentMd5(request, digest);
  if (crc32 !== undefined && crc32 !== crc32Of(chunks)) {
    throw new S3Error('BadDigest', {
      message: 'The CRC32 you specified did not match the calculated checksum.',
    });
  }
  return { chunks, bytes, md5: digest, crc32 };
}
