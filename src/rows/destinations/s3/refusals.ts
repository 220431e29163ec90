import type { ErrorCode } from '../../../foundation/domain/errors.ts';

/** Statuses that send a client elsewhere, whether or not the answer says where. */
export const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

export interface StoreRefusal {
  /** The operation as S3 names it; null if it is not known. */
  readonly operation: string | null;
  readonly name: string;
  readonly message: string;
  readonly status: number | undefined;
  readonly region: string | undefined;
  readonly location: string | undefined;
}

/** The meaning of a refusal for the owner of the export. */
export interface Verdict {
  readonly code: ErrorCode;
  /** A sentence about what to do, which follows the words of the store. */
  readonly advice?: string;
}

export const permissions: Readonly<Record<string, readonly [permission: string, use: string]>> = {
  PutObject: ['s3:PutObject', 'write files'],
  CreateMultipartUpload: ['s3:PutObject', 'write files'],
  UploadPart: ['s3:PutObject', 'write files'],
  CompleteMultipartUpload: ['s3:PutObject', 'write files'],
  AbortMultipartUpload: ['s3:AbortMultipartUpload', 'abort uploads'],
  GetObject: ['s3:GetObject', 'read files'],
  HeadObject: ['s3:GetObject', 'read files'],
  DeleteObject: ['s3:DeleteObject', 'delete files'],
  ListObjectsV2: ['s3:ListBucket', 'list the bucket'],
  ListMultipartUploads: ['s3:ListBucketMultipartUploads', 'list uploads'],
  ListParts: ['s3:ListMultipartUploadParts', 'list the parts of an upload'],
  AssumeRole: ['sts:AssumeRole', 'assume the role'],
};

/** Codes of S3, S3-compatible stores, STS and KMS whose meaning depends on nothing else. */
const codes: Readonly<Record<string, ErrorCode>> = codesOf({
  'destination.access_denied':
    'AccessDenied AccessDeniedException AccountProblem AllAccessDisabled Forbidden NotSignedUp',
  'destination.invalid_credentials': `CredentialsProviderError IncompleteSignature InvalidAccessKeyId InvalidClientTokenId
    InvalidSecurity InvalidToken SignatureDoesNotMatch UnrecognizedClientException`,
  'destination.expired_credentials': 'ExpiredToken ExpiredTokenException TokenRefreshRequired',
  // NotFound: callers that ask for an object have handled its absence already.
  'destination.bucket_not_found': 'NoSuchBucket NotFound',
  // TemporaryRedirect too: a new bucket answers so at each address but its own.
  'destination.wrong_region': `AuthorizationHeaderMalformed BucketRegionError IllegalLocationConstraintException
    IncorrectEndpoint InvalidRegion PermanentRedirect Redirect TemporaryRedirect`,
  'destination.throttled': `Throttling ThrottlingException RequestLimitExceeded SlowDown TooManyRequests
    KMS.ThrottlingException`,
  // RequestTimeTooSkewed: the next try is signed with the store's time.
  'destination.unavailable': `KMS.KMSInternalException KMS.DependencyTimeoutException InternalError OperationAborted
    RequestTimeout RequestTimeTooSkewed ServiceUnavailable BadDigest IncompleteBody
    XAmzContentChecksumMismatch XAmzContentSHA256Mismatch AbortError`,
  // NoSuchKey: an If-Match on an object that no longer exists.
  'destination.conflict': 'ConditionalRequestConflict NoSuchKey PreconditionFailed',
  'destination.upload_lost': 'InvalidPart NoSuchUpload',
});

function codesOf(names: Partial<Record<ErrorCode, string>>): Readonly<Record<string, ErrorCode>> {
  const rows = Object.entries(names) as [ErrorCode, string][];
  return Object.fromEntries(
    rows.flatMap(([code, all]) => all.split(/\s+/).map((name) => [name, code])),
  );
}

/** For other codes in an error document that was read whole. Of any other 4xx the config is wrong. */
const statuses: Readonly<Record<number, ErrorCode>> = {
  401: 'destination.invalid_credentials',
  403: 'destination.access_denied',
  404: 'destination.bucket_not_found',
  408: 'destination.unavailable',
  409: 'destination.conflict',
  412: 'destination.conflict',
  425: 'destination.unavailable',
  429: 'destination.throttled',
  501: 'destination.invalid_config',
};

/** A row of the table: the first that is true of a refusal decides. */
interface Rule {
  readonly when: (refusal: StoreRefusal) => boolean;
  readonly judge: (refusal: StoreRefusal) => Verdict;
}

const isAbout = (pattern: RegExp) => (refusal: StoreRefusal) =>
  pattern.test(refusal.name) || pattern.test(refusal.message);

/** Codes of their own that many stores use. */
const rules: readonly Rule[] = [
  {
    when: isAbout(/second.?level.?domain.?forbidden|path.?style|virtual.?(?:host|style)/i),
    judge: () => ({
      code: 'destination.invalid_config',
      advice: 'Change use_virtual_style_addressing: the store takes the bucket in the host.',
    }),
  },
  {
    when: (refusal) =>
      codes[refusal.name] === 'destination.wrong_region' || redirects.has(refusal.status ?? 0),
    judge: judgeAddress,
  },
  {
    when: (refusal) => isPartOfUpload(refusal.operation) && isAboutParts(refusal),
    judge: () => ({ code: 'destination.invalid_parts' }),
  },
  {
    when: ({ name }) => name === 'EntityTooLarge',
    judge: () => ({
      code: 'destination.invalid_config',
      advice: 'Set max_file_size_mb to a smaller number.',
    }),
  },
  {
    when: isAbout(/quota|insufficientstorage/i),
    judge: () => ({
      code: 'destination.access_denied',
      advice: 'Raise the quota of the bucket or of the account, or delete objects.',
    }),
  },
  {
    when: ({ name, message }) =>
      (name === 'AccessDenied' && /\bkms:/i.test(message)) ||
      (name.startsWith('KMS.') && !(name in codes)),
    judge: () => ({ code: 'destination.kms_denied' }),
  },
];

/** The meaning of a refusal: by operation and answer. Null: neither code nor status is known. */
export function judgeRefusal(refusal: StoreRefusal): Verdict | null {
  const rule = rules.find(({ when }) => when(refusal));
  if (rule) return rule.judge(refusal);
  const { name, status } = refusal;
  const code = codes[name] ?? (status === undefined ? undefined : codeOfStatus(status));
  if (code === undefined) return null;
  return code === 'destination.access_denied' ? denied(code, refusal) : { code };
}

/** Says whether a name says what happened, also without a status. */
export function isKnownCode(name: string): boolean {
  return name in codes;
}

function codeOfStatus(status: number): ErrorCode {
  const listed = statuses[status];
  if (listed) return listed;
  // A success that could not be read was cut or damaged in transit.
  return status >= 500 || status < 400 ? 'destination.unavailable' : 'destination.invalid_config';
}

/** The store's words may name the action, which can be a right beside that of the operation. */
function denied(code: ErrorCode, { operation, message }: StoreRefusal): Verdict {
  const named = /\bs3:[A-Z][A-Za-z]+/.exec(message)?.[0];
  const [permission, use] = permissions[operation ?? ''] ?? [];
  if (!permission) return { code };
  const refused = `The credentials may not ${use}: ${named ?? permission} was refused.`;
  return { code, advice: isPartOfUpload(operation) ? `${refused} ${ofParts}` : refused };
}

/** At S3 these requests cannot have the headers of an object. */
export const isPartOfUpload = (operation: string | null) =>
  operation === 'UploadPart' || operation === 'CompleteMultipartUpload';

/** A policy that is about the headers of each put has this effect, and no word of the store says so. */
const ofParts =
  'If smaller files can be written, a condition of the bucket policy wants x-amz-acl, tags or encryption with each s3:PutObject, and a part has no such header. Add "Null": {"<key of the condition>": "false"} to it.';

/** The bucket is elsewhere. The store may say where: its region, or an address. */
function judgeAddress({ name, message, region, location }: StoreRefusal): Verdict {
  const code = 'destination.wrong_region';
  if (region !== undefined) {
    const at = location === undefined ? '' : `, at ${location}`;
    return { code, advice: `The bucket is in ${region}${at}. Set region to it.` };
  }
  if (location !== undefined) {
    const advice = `The store redirects to ${location}. Set region and endpoint_url to match it.`;
    return { code, advice };
  }
  if (name !== 'AuthorizationHeaderMalformed') {
    return { code, advice: 'Set region and endpoint_url to those of the bucket.' };
  }
  // Stores also answer this to a malformed access key.
  return /\bregion\b|credential.?scope|\bscope\b/i.test(message)
    ? { code, advice: 'Set region to the region of the bucket.' }
    : { code: 'destination.invalid_credentials' };
}

const partCodes = /^(?:EntityTooSmall|EntityTooLarge|TooManyParts|InvalidPartNumber)$/;

function isAboutParts({ name, message, status = 400 }: StoreRefusal): boolean {
  if (status < 400 || status >= 500 || [401, 403, 404].includes(status)) return false;
  if (partCodes.test(name)) return true;
  const isAboutOne = /\bparts?\b|\bpart.?number/i.test(message);
  return isAboutOne && /number|\bsize|length|equal|\blimit|maximum|between \d/i.test(message);
}
