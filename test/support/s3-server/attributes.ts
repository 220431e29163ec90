import { createHash } from 'node:crypto';
import type { Context } from './context.ts';
import { S3Error } from './errors.ts';
import type { Encryption, ObjectAttributes } from './storage.ts';

const kept = [
  'content-type',
  'content-encoding',
  'content-disposition',
  'content-language',
  'cache-control',
  'expires',
  'x-amz-storage-class',
  'x-amz-website-redirect-location',
];

const maxMetadataBytes = 2048;

function readEncryption({ request, region, kmsKeys }: Context): Encryption {
  const algorithm = request.headers['x-amz-server-side-encryption'];
  const kmsKeyId = request.headers['x-amz-server-side-encryption-aws-kms-key-id'];
  if (algorithm !== undefined && !['AES256', 'aws:kms', 'aws:kms:dsse'].includes(algorithm)) {
    throw new S3Error('InvalidArgument', {
      message: 'The encryption method specified is not supported',
      details: { ArgumentName: 'x-amz-server-side-encryption', ArgumentValue: algorithm },
    });
  }
  const usesKms = algorithm?.startsWith('aws:kms') === true;
  if (kmsKeyId !== undefined && !usesKms) {
    throw new S3Error('InvalidArgument', {
      message:
        'Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms',
      details: { ArgumentName: 'x-amz-server-side-encryption', ArgumentValue: algorithm ?? 'null' },
    });
  }
  if (!usesKms) return { algorithm: 'AES256', kmsKeyId: undefined };
  if (kmsKeyId !== undefined && kmsKeys && !kmsKeys.includes(kmsKeyId)) {
    throw new S3Error('KMS.NotFoundException', { message: `Key '${kmsKeyId}' does not exist` });
  }
  const managed = `arn:aws:kms:${region}:000000000000:alias/aws/s3`;
  return { algorithm: algorithm ?? '', kmsKeyId: kmsKeyId ?? managed };
}

/** Reads what a PUT or CreateMultipartUpload says about the object to be. */
export function readAttributes(context: Context): ObjectAttributes {
  const headers: Record<string, string> = { 'content-type': 'binary/octet-stream' };
  let metadataBytes = 0;
  for (const [name, value] of Object.entries(context.request.headers)) {
    if (name.startsWith('x-amz-meta-')) {
      metadataBytes += name.length - 'x-amz-meta-'.length + Buffer.byteLength(value);
      headers[name] = value;
    } else if (kept.includes(name)) headers[name] = value;
  }
  if (metadataBytes > maxMetadataBytes) {
    throw new S3Error('MetadataTooLarge', {
      details: { Size: String(metadataBytes), MaxSizeAllowed: String(maxMetadataBytes) },
    });
  }
  return { headers, encryption: readEncryption(context) };
}

export function encryptionHeaders({ algorithm, kmsKeyId }: Encryption): Record<string, string> {
  return {
    'x-amz-server-side-encryption': algorithm,
    ...(kmsKeyId === undefined ? {} : { 'x-amz-server-side-encryption-aws-kms-key-id': kmsKeyId }),
  };
}

/** An ETag is the MD5 of the content only if KMS does not encrypt it: a client must not count on it. */
export function etagOf(md5: Buffer, encryption: Encryption, suffix = ''): string {
  const digest = encryption.kmsKeyId
    ? createHash('md5').update(encryption.kmsKeyId).update(md5).digest()
    : md5;
  return `"${digest.toString('hex')}${suffix}"`;
}
