/**
 * The error catalogue: for each code, whose fault it is, whether trying again can help, what it
 * means and what to do. `latest_error`, logs, the API and the documentation share this text; the
 * retry policy reads `retryable`; nothing else decides about retrying.
 */

export type Fault = 'customer' | 'destination' | 'source' | 'internal';

export interface ErrorSpec {
  readonly fault: Fault;
  /** True where the same attempt may succeed later without anybody acting. */
  readonly retryable: boolean;
  readonly means: string;
  readonly remedy: string;
}

const customer = (means: string, remedy: string): ErrorSpec => ({
  fault: 'customer',
  retryable: false,
  means,
  remedy,
});
const passing = (fault: Fault, means: string, remedy: string): ErrorSpec => ({
  fault,
  retryable: true,
  means,
  remedy,
});

export const errorCatalogue = {
  'destination.access_denied': customer(
    'The destination refused access.',
    'Grant the credentials permission to write to the bucket and prefix, then retry the run.',
  ),
  'destination.invalid_credentials': customer(
    'The destination does not accept the credentials.',
    'Update aws_access_key_id and aws_secret_access_key of the export, then retry the run.',
  ),
  'destination.expired_credentials': customer(
    'The credentials have expired.',
    'Update the credentials of the export, then retry the run.',
  ),
  'destination.bucket_not_found': customer(
    'The bucket does not exist.',
    'Create the bucket or correct bucket_name, then retry the run.',
  ),
  'destination.wrong_region': customer(
    'The bucket is in another region.',
    'Correct region, then retry the run.',
  ),
  'destination.kms_denied': customer(
    'The encryption key cannot be used.',
    'Grant the credentials use of the KMS key or correct kms_key_id, then retry the run.',
  ),
  'destination.endpoint_forbidden': customer(
    'The endpoint resolves to an address that is not allowed.',
    'Use a public endpoint, or ask the operator to name it in ALLOWED_PRIVATE_ENDPOINTS.',
  ),
  'destination.invalid_config': customer(
    'The destination refused the request as invalid.',
    'Correct the destination config of the export, then retry the run.',
  ),
  'destination.key_taken': customer(
    'The file at this key belongs to something else.',
    'Give the export a prefix of its own, for example {batch_export_id}, then retry the run.',
  ),
  'destination.unavailable': passing(
    'destination',
    'The destination is unavailable.',
    'Nothing to do: the run is tried again.',
  ),
  'destination.throttled': passing(
    'destination',
    'The destination asked to slow down.',
    'Nothing to do: the run is tried again. If it persists, raise the limits of the destination.',
  ),
  'destination.stalled': passing(
    'destination',
    'The destination stopped taking data.',
    'Nothing to do: the run is tried again.',
  ),
  'destination.conflict': passing(
    'destination',
    'Another writer changed the file at the same time.',
    'Nothing to do: the run is tried again. Make sure nothing else writes to this prefix.',
  ),
  'destination.upload_lost': passing(
    'destination',
    'The destination no longer knows the upload.',
    'Nothing to do: the run is tried again from the start of the file.',
  ),
  'query.invalid': customer(
    'The query cannot be run.',
    'Correct dsl_query of the export, then retry the run.',
  ),
  'source.permission_denied': customer(
    'The source database refused access to the relation.',
    'Grant the export role SELECT on the relation, then retry the run.',
  ),
  'source.relation_missing': customer(
    'The relation or column does not exist in the source database.',
    'Correct the model or the query, then retry the run.',
  ),
  'source.unavailable': passing(
    'source',
    'The source database is unavailable.',
    'Nothing to do: the run is tried again.',
  ),
  'source.timeout': passing(
    'source',
    'The source database took too long.',
    'Nothing to do: the run is tried again. If it persists, add an index on the interval column.',
  ),
  'source.count_mismatch': passing(
    'source',
    'The rows that were read are not those that were counted.',
    'Nothing to do: the run is tried again. If it persists, report it with the run id.',
  ),
  'source.unsupported': {
    fault: 'source',
    retryable: false,
    means: 'The source database cannot be exported as it is.',
    remedy: 'Ask the operator to mend what is named here, then retry the run.',
  },
  'source.standby': passing(
    'source',
    'The source database is a standby, which cannot show that an interval is complete.',
    'Ask your operator to set settle_url of the model or SOURCE_PRIMARY_URL. Sluice retries automatically.',
  ),
  'source.unknown_model': customer(
    'The model is not defined in this installation.',
    'Ask the operator to define the model, or delete the export.',
  ),
  'run.crashed': {
    fault: 'internal',
    retryable: false,
    means:
      'The worker crashed repeatedly on this run, also in a process that the run had for itself, so Sluice stopped retrying it.',
    remedy: 'Report this to your operator with the run id. Retry the run once the cause is fixed.',
  },
  'run.lease_lost': passing(
    'internal',
    'Another worker took the run over.',
    'Nothing to do: the other worker goes on with it.',
  ),
  'run.cancelled': {
    fault: 'customer',
    retryable: false,
    means: 'The run was cancelled.',
    remedy: 'Retry the run if its interval is wanted after all.',
  },
  'run.released': passing(
    'internal',
    'The worker was shut down.',
    'Nothing to do: another worker goes on with it.',
  ),
  'secrets.undecryptable': {
    fault: 'internal',
    retryable: false,
    means: 'The stored credentials cannot be decrypted.',
    remedy:
      'Ask the operator to restore the key in ENCRYPTION_KEYS, or store the credentials again.',
  },
  'internal.database_unavailable': passing(
    'internal',
    'The database of this installation was unavailable.',
    'Nothing to do: the run is tried again.',
  ),
  'internal.unexpected': passing(
    'internal',
    'An unexpected error happened.',
    'Nothing to do: the run is tried again. If it persists, report it with the run id.',
  ),
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof errorCatalogue;

/** Whether this build knows the code. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorCatalogue, text);
}

/**
 * A failure whose meaning is known. `detail` is shown to the export's owner: it never holds a
 * secret, a stack trace or anything of another tenant. `cause` is for our own log only.
 */
export class SluiceError extends Error {
  readonly code: ErrorCode;
  readonly detail: string | undefined;

  constructor(code: ErrorCode, detail?: string, cause?: unknown) {
    super(detail ? `${code}: ${detail}` : code, { cause });
    this.name = 'SluiceError';
    this.code = code;
    this.detail = detail;
  }

  get spec(): ErrorSpec {
    return errorCatalogue[this.code];
  }
}

/** Turns whatever was thrown into a SluiceError; the unknown becomes `internal.unexpected`. */
export function toSluiceError(error: unknown): SluiceError {
  return error instanceof SluiceError
    ? error
    : new SluiceError('internal.unexpected', undefined, error);
}

/** The text of `latest_error`: `code: what happened and what to do`. */
export function describeError(error: SluiceError): string {
  const { means, remedy } = error.spec;
  return `${error.code}: ${means}${error.detail ? ` (${error.detail})` : ''} ${remedy}`;
}
