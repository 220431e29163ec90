/** The operations this server knows, by the names of the S3 API. */
export const operationNames = [
  'AbortMultipartUpload',
  'CompleteMultipartUpload',
  'CreateMultipartUpload',
  'DeleteObject',
  'GetObject',
  'HeadBucket',
  'HeadObject',
  'ListMultipartUploads',
  'ListObjectsV2',
  'ListParts',
  'PutObject',
  'UploadPart',
  'Unknown',
] as const;
export type OperationName = (typeof operationNames)[number];

interface Shape {
  method: string;
  query: readonly [string, string][];
  headers: Record<string, string>;
  bucket: string | undefined;
  key: string | undefined;
}

/** Parameters that choose another operation ("subresources"); an unknown one must not fall through to a plain PUT. */
const subresources = new Set(
  (
    'accelerate acl analytics attributes cors delete encryption inventory legal-hold lifecycle location logging ' +
    'metrics notification object-lock ownershipControls partNumber policy policyStatus publicAccessBlock renameObject ' +
    'replication requestPayment restore retention select session tagging torrent uploadId uploads versioning versions website'
  ).split(' '),
);

/** One row an operation: method, the level it acts on, the subresources that must be there, exactly. */
const table: [string, 'service' | 'bucket' | 'object', string, OperationName][] = [
  ['HEAD', 'bucket', '', 'HeadBucket'],
  ['GET', 'bucket', '', 'ListObjectsV2'],
  ['GET', 'bucket', 'uploads', 'ListMultipartUploads'],
  ['PUT', 'object', '', 'PutObject'],
  ['GET', 'object', '', 'GetObject'],
  ['HEAD', 'object', '', 'HeadObject'],
  ['DELETE', 'object', '', 'DeleteObject'],
  ['POST', 'object', 'uploads', 'CreateMultipartUpload'],
  ['PUT', 'object', 'partNumber,uploadId', 'UploadPart'],
  ['POST', 'object', 'uploadId', 'CompleteMultipartUpload'],
  ['DELETE', 'object', 'uploadId', 'AbortMultipartUpload'],
  ['GET', 'object', 'uploadId', 'ListParts'],
];

/** Names the operation of a request; `Unknown` (answered 501) for what this server does not do. */
export function operationOf({ method, query, headers, bucket, key }: Shape): OperationName {
  const level = key !== undefined ? 'object' : bucket !== undefined ? 'bucket' : 'service';
  const present = query.map(([name]) => name).filter((name) => subresources.has(name));
  const wanted = [...new Set(present)].sort().join(',');
  const row = table.find(
    ([rowMethod, rowLevel, names]) =>
      rowMethod === method && rowLevel === level && names === wanted,
  );
  const operation = row?.[3] ?? 'Unknown';
  if (headers['x-amz-copy-source'] !== undefined) return 'Unknown';
  const isVersion2 = query.some(([name, value]) => name === 'list-type' && value === '2');
  return operation === 'ListObjectsV2' && !isVersion2 ? 'Unknown' : operation;
}
