import { element, xmlDocument } from './xml.ts';

/** The status of each error code that this server gives by its own rules. A fault plan may give any other. */
const statuses = {
  AccessDenied: 403,
  AuthorizationHeaderMalformed: 400,
  AuthorizationQueryParametersError: 400,
  BadDigest: 400,
  BrokenMPU: 409,
  ConditionalRequestConflict: 409,
  EntityTooSmall: 400,
  ExpiredToken: 400,
  IncompleteBody: 400,
  InternalError: 500,
  InvalidAccessKeyId: 403,
  InvalidArgument: 400,
  InvalidDigest: 400,
  InvalidPart: 400,
  InvalidPartOrder: 400,
  InvalidRange: 416,
  InvalidRequest: 400,
  InvalidToken: 400,
  KeyTooLongError: 400,
  'KMS.NotFoundException': 400,
  MalformedXML: 400,
  MetadataTooLarge: 400,
  MethodNotAllowed: 405,
  MissingContentLength: 411,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  NoSuchUpload: 404,
  NotImplemented: 501,
  NotModified: 304,
  PermanentRedirect: 301,
  PreconditionFailed: 412,
  RequestTimeTooSkewed: 403,
  SignatureDoesNotMatch: 403,
  XAmzContentSHA256Mismatch: 400,
} satisfies Record<string, number>;

/** S3's words of those that people are shown. */
const words: Readonly<Record<string, string>> = {
  AccessDenied: 'Access Denied',
  NoSuchBucket: 'The specified bucket does not exist',
};

export type S3ErrorCode = keyof typeof statuses;

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
    super(message ?? messageOf(code));
    this.code = code;
    this.status = statuses[code];
    this.details = details;
    this.headers = headers;
  }
}

/** What is said about a code: the code itself, if no other words are known. */
export function messageOf(code: string): string {
  return words[code] ?? code;
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
