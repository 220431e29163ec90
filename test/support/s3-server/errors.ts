import { element, xmlDocument } from './xml.ts';

interface ErrorEntry {
  status: number;
  message: string;
}

/**
 * The error codes this server gives by its own rules, with status and words of the S3 API reference
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html). A fault plan may give any other.
 */
const catalogue = {
  AccessDenied: { status: 403, message: 'Access Denied' },
  AuthorizationHeaderMalformed: {
    status: 400,
    message: 'The authorization header that you provided is not valid.',
  },
  AuthorizationQueryParametersError: {
    status: 400,
    message: 'Error parsing the X-Amz-Credential parameter.',
  },
  BadDigest: {
    status: 400,
    message: 'The Content-MD5 or checksum value that you specified did not match what we received.',
  },
  BrokenMPU: { status: 409, message: 'The parts of the object are not those it was made of.' },
  BucketAlreadyOwnedByYou: {
    status: 409,
    message: 'Your previous request to create the named bucket succeeded and you already own it.',
  },
  ConditionalRequestConflict: {
    status: 409,
    message:
      'The conditional request cannot succeed due to a conflicting operation against this resource.',
  },
  EntityTooLarge: {
    status: 400,
    message: 'Your proposed upload exceeds the maximum allowed object size.',
  },
  EntityTooSmall: {
    status: 400,
    message: 'Your proposed upload is smaller than the minimum allowed object size.',
  },
  ExpiredToken: { status: 400, message: 'The provided token has expired.' },
  IllegalLocationConstraintException: {
    status: 400,
    message: 'The location constraint is incompatible for the region specific endpoint.',
  },
  IncompleteBody: {
    status: 400,
    message: 'You did not provide the number of bytes specified by the Content-Length HTTP header.',
  },
  InternalError: {
    status: 500,
    message: 'We encountered an internal error. Please try again.',
  },
  InvalidAccessKeyId: {
    status: 403,
    message: 'The AWS Access Key Id you provided does not exist in our records.',
  },
  InvalidArgument: { status: 400, message: 'Invalid Argument' },
  InvalidChunkSizeError: {
    status: 403,
    message: 'Only the last chunk is allowed to have a size less than 8192 bytes',
  },
  InvalidDigest: { status: 400, message: 'The Content-MD5 you specified is not valid.' },
  InvalidPart: {
    status: 400,
    message:
      "One or more of the specified parts could not be found. The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
  },
  InvalidPartOrder: {
    status: 400,
    message: 'The list of parts was not in ascending order. Parts must be ordered by part number.',
  },
  InvalidRange: { status: 416, message: 'The requested range is not satisfiable' },
  InvalidRequest: { status: 400, message: 'Invalid Request' },
  InvalidToken: { status: 400, message: 'The provided token is malformed or otherwise invalid.' },
  KeyTooLongError: { status: 400, message: 'Your key is too long' },
  'KMS.NotFoundException': { status: 400, message: 'The KMS key does not exist.' },
  MalformedTrailerError: {
    status: 400,
    message: 'The request contained trailing data that was not well-formed.',
  },
  MalformedXML: {
    status: 400,
    message:
      'The XML you provided was not well-formed or did not validate against our published schema',
  },
  MetadataTooLarge: {
    status: 400,
    message: 'Your metadata headers exceed the maximum allowed metadata size.',
  },
  MethodNotAllowed: {
    status: 405,
    message: 'The specified method is not allowed against this resource.',
  },
  MissingContentLength: {
    status: 411,
    message: 'You must provide the Content-Length HTTP header.',
  },
  NoSuchBucket: { status: 404, message: 'The specified bucket does not exist' },
  NoSuchKey: { status: 404, message: 'The specified key does not exist.' },
  NoSuchUpload: {
    status: 404,
    message:
      'The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.',
  },
  NotImplemented: {
    status: 501,
    message: 'A header you provided implies functionality that is not implemented',
  },
  NotModified: { status: 304, message: 'Not Modified' },
  PermanentRedirect: {
    status: 301,
    message:
      'The bucket you are attempting to access must be addressed using the specified endpoint.',
  },
  PreconditionFailed: {
    status: 412,
    message: 'At least one of the pre-conditions you specified did not hold',
  },
  RequestTimeTooSkewed: {
    status: 403,
    message: 'The difference between the request time and the current time is too large.',
  },
  SecondLevelDomainForbidden: {
    status: 403,
    message: 'Please use virtual hosted style to access.',
  },
  SignatureDoesNotMatch: {
    status: 403,
    message:
      'The request signature we calculated does not match the signature you provided. Check your key and signing method.',
  },
  XAmzContentSHA256Mismatch: {
    status: 400,
    message: "The provided 'x-amz-content-sha256' header does not match what was computed.",
  },
} satisfies Record<string, ErrorEntry>;

export type S3ErrorCode = keyof typeof catalogue;

/** Thrown by any rule of the server; becomes the XML error answer. */
export class S3Error extends Error {
  readonly code: string;
  readonly status: number;
  /** Extra elements of the error document, e.g. `Region`. */
  readonly details: Record<string, string>;
  readonly headers: Record<string, string>;

  constructor(
    code: S3ErrorCode,
    {
      message,
      details = {},
      headers = {},
    }: {
      message?: string;
      details?: Record<string, string>;
      headers?: Record<string, string>;
    } = {},
  ) {
    super(message ?? catalogue[code].message);
    this.code = code;
    this.status = catalogue[code].status;
    this.details = details;
    this.headers = headers;
  }
}

/** The words of the catalogue for a code of it; the code itself for any other. */
export function messageOf(code: string): string {
  return code in catalogue ? catalogue[code as S3ErrorCode].message : code;
}

/** The XML document S3 answers an error with. */
export function errorDocument(error: {
  code: string;
  message: string;
  resource: string;
  requestId: string;
  details?: Record<string, string>;
}): string {
  return xmlDocument(
    element('Error', [
      element('Code', error.code),
      element('Message', error.message),
      ...Object.entries(error.details ?? {}).map(([name, value]) => element(name, value)),
      element('Resource', error.resource),
      element('RequestId', error.requestId),
      element('HostId', 'sluice-test'),
    ]),
  );
}
