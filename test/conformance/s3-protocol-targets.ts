import { startFauxqs } from 'fauxqs';
import { startS3Server } from '../support/s3-server/server.ts';
import type { ProtocolTarget } from './s3-protocol.ts';
import type { RunningTarget } from './s3-protocol-subject.ts';

const bucket = 'protocol';
const region = 'us-east-1';
const credentials = { accessKeyId: 'AKIAPROTOCOL', secretAccessKey: 'protocol-secret' };
const known = { bucket, region, credentials };

async function startOurs(): Promise<RunningTarget> {
  const server = await startS3Server({ buckets: [bucket], region, credentials });
  return { ...known, endpoint: server.endpoint, close: () => server.close() };
}

async function startFauxqsTarget(): Promise<RunningTarget> {
  const server = await startFauxqs({ port: 0, logger: false, host: '127.0.0.1' });
  server.createBucket(bucket);
  return { ...known, endpoint: `http://127.0.0.1:${server.port}`, close: () => server.stop() };
}

/** What of miniflare is used here: it is not a dependency, so there are no types of its own. */
interface MiniflareModule {
  Miniflare: new (options: object) => { ready: Promise<URL>; dispose(): Promise<void> };
}

const miniflareName: string = 'miniflare';

async function startMiniflare(): Promise<RunningTarget> {
  const { Miniflare }: MiniflareModule = await import(miniflareName);
  const miniflare = new Miniflare({
    modules: true,
    script: 'export default { fetch: () => new Response(null, { status: 404 }) };',
    r2Buckets: { BUCKET: { id: bucket, s3Credentials: credentials } },
  });
  const endpoint = `${(await miniflare.ready).origin}/cdn-cgi/local/r2/s3`;
  return { ...known, endpoint, close: () => miniflare.dispose() };
}

const isInstalled = (name: string): boolean => {
  try {
    import.meta.resolve(name);
    return true;
  } catch {
    return false;
  }
};

const fauxqsDifferences: ProtocolTarget['differences'] = {
  'a request without a signature is refused with AccessDenied': 'no authentication at all',
  'a wrong secret is refused with SignatureDoesNotMatch': 'no authentication at all',
  'an unknown access key is refused with InvalidAccessKeyId': 'no authentication at all',
  'a request changed after signing is refused with SignatureDoesNotMatch':
    'no authentication at all',
  'an x-amz header that is not signed is refused': 'no authentication at all',
  'a clock 20 minutes off is refused with RequestTimeTooSkewed': 'no authentication at all',
  'a wrong region is refused, and the right one named': 'any region is taken',
  'a presigned URL for another object is refused with SignatureDoesNotMatch':
    'no authentication at all',
  'an expired presigned URL is refused with 403': 'no authentication at all',
  'a body other than x-amz-content-sha256 says is refused and not stored':
    'the hash is not looked at',
  'a payload hash that is none is refused with InvalidArgument': 'the hash is not looked at',
  'a wrong chunk signature is refused and nothing stored': 'chunk signatures are not looked at',
  'a wrong trailing checksum is refused with BadDigest and nothing stored':
    'checksums are not looked at',
  'a wrong x-amz-checksum header is refused with BadDigest and nothing stored':
    'checksums are not looked at',
  'a wrong Content-MD5 is refused with BadDigest and nothing stored': 'checksums are not looked at',
  'a composite checksum is the checksum of the checksums of the parts': 'checksums are not kept',
  'an object comes back with its type, encoding, metadata and MD5 as ETag':
    'Content-Encoding is not kept',
  'a listing is in the order of UTF-8 bytes': 'not sorted by bytes',
  'encoding-type=url encodes keys in a listing': 'encoding-type is not looked at',
  'server-side encryption is echoed': 'no encryption headers',
  'If-None-Match: * puts a new object, and is refused with 412 on one that exists':
    'writes have no conditions',
  'of several writers with If-None-Match: * exactly one wins': 'writes have no conditions',
  'If-Match replaces the version it names and no other': 'writes have no conditions',
  'If-Match on a key that is not there is 404 NoSuchKey': 'writes have no conditions',
  'a complete with If-None-Match: * is refused with 412 if the object exists':
    'writes have no conditions',
  'a complete with If-Match replaces the version it names and no other':
    'writes have no conditions',
  'an empty list of parts is MalformedXML': 'makes an empty object',
  'part numbers are 1 to 10,000': 'any part number is taken',
  'a complete that is sent again is answered as the first': '404 NoSuchUpload',
  'ListParts lists in pages': 'read as GetObject',
  'ListMultipartUploads lists the open uploads in pages': 'read as ListObjects',
};

const miniflareDifferences: ProtocolTarget['differences'] = {
  'a request without a signature is refused with AccessDenied': '400 InvalidArgument',
  'an unknown access key is refused with InvalidAccessKeyId': '401 Unauthorized',
  'an x-amz header that is not signed is refused': 'taken',
  'a wrong region is refused, and the right one named': 'any region is taken',
  'a payload hash that is none is refused with InvalidArgument': 'taken',
  'an expired presigned URL is refused with 403': '403, but the code is ExpiredRequest',
  'a body in signed chunks is taken': 'aws-chunked is not unwrapped',
  'a wrong chunk signature is refused and nothing stored': 'aws-chunked is not unwrapped',
  'a stream of the official client is taken with each trailing checksum':
    'aws-chunked is not unwrapped',
  'a wrong trailing checksum is refused with BadDigest and nothing stored':
    'aws-chunked is not unwrapped',
  'a wrong x-amz-checksum header is refused with BadDigest and nothing stored': 'not looked at',
  'a composite checksum is the checksum of the checksums of the parts': 'checksums are not kept',
  'an object comes back with its type, encoding, metadata and MD5 as ETag':
    'the runtime compresses a body that is said to be gzip',
  'an error is an XML document with Code, Message and RequestId': 'no RequestId',
  'encoding-type=url encodes keys in a listing': 'also slashes, and a space as %20',
  'server-side encryption is echoed': '501 NotImplemented for aws:kms',
  'the bucket answers its location': 'R2 has the one region auto',
  'virtual-host style reaches the same object': 'path style only',
  'If-Match on a key that is not there is 404 NoSuchKey': '412 PreconditionFailed',
  'a complete with If-None-Match: * is refused with 412 if the object exists':
    'completes have no conditions',
  'a complete with If-Match replaces the version it names and no other':
    'completes have no conditions',
  'parts out of order, or twice, are InvalidPartOrder': 'EntityTooSmall',
  'an aborted or unknown upload is NoSuchUpload': 'an aborted upload may be aborted again',
  'a complete that is sent again is answered as the first': '404 NoSuchUpload',
  'ListParts lists in pages': '501 NotImplemented',
  'ListMultipartUploads lists the open uploads in pages': '501 NotImplemented',
};

export const protocolTargets: ProtocolTarget[] = [
  { name: "the test kit's own S3 server", start: startOurs, differences: {} },
  { name: 'fauxqs', start: startFauxqsTarget, differences: fauxqsDifferences },
  {
    name: "miniflare's R2",
    // The S3 endpoint came in June 2026; the versions since declare Node 22, so it is no dependency of ours.
    missing: isInstalled(miniflareName)
      ? undefined
      : 'not installed; npm i --no-save miniflare@4.20260730.0',
    start: startMiniflare,
    differences: miniflareDifferences,
  },
];
