import { createHash } from 'node:crypto';
import type { Authenticated } from './authentication.ts';
import { decodeAwsChunked } from './aws-chunked.ts';
import {
  type ChecksumName,
  checksumNames,
  createHasher,
  digestBytes,
  isChecksumName,
} from './checksums.ts';
import { S3Error } from './errors.ts';
import type { S3Request } from './request.ts';

export interface Checksum {
  name: ChecksumName;
  /** Base64. */
  value: string;
}

/** A body that was read whole and agrees with everything the request said about it. */
export interface VerifiedBody {
  chunks: Buffer[];
  bytes: number;
  md5: Buffer;
  checksum: Checksum | undefined;
}

const modes = {
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD': { signed: true, trailing: false },
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER': { signed: true, trailing: true },
  'STREAMING-UNSIGNED-PAYLOAD-TRAILER': { signed: false, trailing: true },
} as const;

type StreamingMode = (typeof modes)[keyof typeof modes];

function streamingMode(payloadHash: string): StreamingMode | null {
  if (payloadHash in modes) return modes[payloadHash as keyof typeof modes];
  if (payloadHash === 'UNSIGNED-PAYLOAD' || /^[0-9a-f]{64}$/.test(payloadHash)) return null;
  throw new S3Error('InvalidArgument', {
    message:
      'x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.',
  });
}

function declaredBytes(request: S3Request, mode: StreamingMode | null): number {
  const { headers } = request;
  const length = mode ? headers['x-amz-decoded-content-length'] : headers['content-length'];
  if (length !== undefined && /^\d+$/.test(length)) return Number(length);
  if (!mode && headers['transfer-encoding'] !== undefined) throw new S3Error('NotImplemented');
  if (!mode && request.method !== 'PUT') return 0;
  throw new S3Error('MissingContentLength');
}

/** The one checksum that headers or the announced trailer name, with its value if it is known yet. */
function declaredChecksum(
  request: S3Request,
  mode: StreamingMode | null,
): { name: ChecksumName; value: string | null } | undefined {
  const inHeaders = checksumNames.filter(
    (name) => request.headers[`x-amz-checksum-${name}`] !== undefined,
  );
  const trailer = request.headers['x-amz-trailer']?.trim().toLowerCase();
  const trailerName = trailer?.replace('x-amz-checksum-', '') ?? '';
  if (trailer !== undefined && (!mode?.trailing || !isChecksumName(trailerName))) {
    throw new S3Error('InvalidRequest', {
      message: 'The value specified in the x-amz-trailer header is not supported',
    });
  }
  const all = [...inHeaders, ...(isChecksumName(trailerName) ? [trailerName] : [])];
  if (all.length > 1) {
    throw new S3Error('InvalidRequest', {
      message:
        'Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.',
    });
  }
  const [name] = all;
  if (name === undefined) {
    if (request.headers['x-amz-sdk-checksum-algorithm'] !== undefined) {
      throw new S3Error('InvalidRequest', {
        message:
          'x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.',
      });
    }
    return undefined;
  }
  return { name, value: request.headers[`x-amz-checksum-${name}`] ?? null };
}

export function checkDigestForm({ name, value }: Checksum): void {
  const bytes = Buffer.from(value, 'base64');
  if (bytes.length !== digestBytes[name] || bytes.toString('base64') !== value) {
    throw new S3Error('InvalidRequest', {
      message: `Value for x-amz-checksum-${name} header is invalid.`,
    });
  }
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
 * Reads a body to its end, hashing as it flows, and throws if it does not keep what the headers or
 * the trailer promised: length, SHA-256, chunk signatures, Content-MD5, x-amz-checksum-*. The last are
 * left alone with `ignoreChecksums`: they may be about something else than this body.
 */
export async function readBody(
  request: S3Request,
  authenticated: Authenticated,
  source: AsyncIterable<Buffer>,
  { ignoreChecksums = false }: { ignoreChecksums?: boolean } = {},
): Promise<VerifiedBody> {
  const mode = streamingMode(authenticated.payloadHash);
  const expectedBytes = declaredBytes(request, mode);
  const declared = ignoreChecksums ? undefined : declaredChecksum(request, mode);
  if (declared?.value) checkDigestForm({ name: declared.name, value: declared.value });

  const chunks: Buffer[] = [];
  let bytes = 0;
  const md5 = createHash('md5');
  const sha256 = mode ? null : createHash('sha256');
  const hasher = declared ? createHasher(declared.name) : null;
  const take = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > expectedBytes) throw new S3Error('IncompleteBody');
    chunks.push(chunk);
    md5.update(chunk);
    sha256?.update(chunk);
    hasher?.update(chunk);
  };

  let trailers = new Map<string, string>();
  if (mode) {
    const signer = mode.signed ? authenticated.chunkSigner : null;
    const data = decodeAwsChunked(source, { signer, trailing: mode.trailing });
    let next = await data.next();
    for (; !next.done; next = await data.next()) take(next.value);
    trailers = next.value;
  } else {
    for await (const chunk of source) take(chunk);
  }
  if (bytes !== expectedBytes) throw new S3Error('IncompleteBody');
  if (sha256 && authenticated.payloadHash !== 'UNSIGNED-PAYLOAD') {
    const computed = sha256.digest('hex');
    if (computed !== authenticated.payloadHash) {
      throw new S3Error('XAmzContentSHA256Mismatch', {
        details: {
          ClientComputedContentSHA256: authenticated.payloadHash,
          S3ComputedContentSHA256: computed,
        },
      });
    }
  }
  const digest = md5.digest();
  checkContentMd5(request, digest);
  return {
    chunks,
    bytes,
    md5: digest,
    checksum: settleChecksum(declared, trailers, hasher?.digest()),
  };
}

function settleChecksum(
  declared: { name: ChecksumName; value: string | null } | undefined,
  trailers: Map<string, string>,
  computed: string | undefined,
): Checksum | undefined {
  if (!declared || computed === undefined) return undefined;
  const value = declared.value ?? trailers.get(`x-amz-checksum-${declared.name}`);
  if (value === undefined) throw new S3Error('MalformedTrailerError');
  checkDigestForm({ name: declared.name, value });
  if (value !== computed) {
    throw new S3Error('BadDigest', {
      message: `The ${declared.name.toUpperCase()} you specified did not match the calculated checksum.`,
    });
  }
  return { name: declared.name, value };
}
