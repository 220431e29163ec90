import { cutText, oneLine } from './one-line.ts';
import { hideFolders } from './partition.ts';
import { isOfTemporaryFile } from './temporary-file.ts';

/**
 * The error catalogue: for each code, whose fault it is, whether a retry can help, what it means and what to do. A remedy ends after the
 * fix, and can be read alone: `afterRemedy` says what happens then. `latest_error`, logs, the API and the documentation share this text.
 */

export const faults = ['internal', 'source', 'destination', 'customer'] as const;
export type Fault = (typeof faults)[number];

export interface ErrorSpec {
  readonly fault: Fault;
  /** The error is transient: the same attempt may succeed later without any change. */
  readonly retryable: boolean;
  readonly means: string;
  readonly remedy: string;
}

/** Whose fault a stored code is; one that this build does not know is ours. */
export function faultOf(code: string): Fault {
  return isErrorCode(code) ? errorCatalogue[code].fault : 'internal';
}

const lasting = (fault: Fault, means: string, remedy: string): ErrorSpec => {
  return { fault, retryable: false, means, remedy };
};
const customer = (means: string, remedy: string) => lasting('customer', means, remedy);
const transient = (fault: Fault, means: string, remedy: string): ErrorSpec => {
  return { fault, retryable: true, means, remedy };
};

export const errorCatalogue = {
  'destination.access_denied': customer(
    'The destination refused access.',
    'Grant the credentials what the error names.',
  ),
  'destination.invalid_credentials': customer(
    'The destination rejected the credentials.',
    'Update aws_access_key_id and aws_secret_access_key of the export.',
  ),
  'destination.expired_credentials': customer(
    'The credentials have expired.',
    'Update the credentials of the export.',
  ),
  'destination.bucket_not_found': customer(
    'The bucket does not exist.',
    'Create the bucket or correct bucket_name.',
  ),
  'destination.wrong_region': customer(
    'The bucket is in another region or at another address.',
    'Set region to the region of the bucket, and endpoint_url to its address.',
  ),
  'destination.kms_denied': customer(
    'The credentials are not allowed to use the KMS key.',
    'Allow the credentials to use the KMS key or correct kms_key_id.',
  ),
  'destination.not_a_store': customer(
    'What answers is not the store: a proxy, a gateway, a login page or a console.',
    'Correct endpoint_url, or what the error names on the way to the store.',
  ),
  'destination.endpoint_forbidden': customer(
    'The endpoint resolves to an address that is not allowed.',
    'Use a public endpoint, or ask your operator to add it to ALLOWED_PRIVATE_ENDPOINTS.',
  ),
  'destination.certificate_refused': customer(
    'The certificate of the destination is not valid.',
    'Renew the certificate or correct endpoint_url. If the certificate is of your own authority, ask your operator to name its file in NODE_EXTRA_CA_CERTS.',
  ),
  'destination.invalid_config': customer(
    'The destination refused the request as invalid.',
    'Correct the destination config of the export.',
  ),
  'destination.decimal_mismatch': customer(
    'decimal_columns names a column that does not exist or is not numeric.',
    'Correct decimal_columns or dsl_query of the export.',
  ),
  'destination.partition_mismatch': customer(
    'partition_by names a column that the rows do not have, or a date part that the column has not.',
    'Correct partition_by or dsl_query of the export.',
  ),
  'destination.too_many_partitions': customer(
    'The rows of the interval have too many different values for partition_by.',
    'Choose columns with fewer values in partition_by, or larger date parts.',
  ),
  'destination.key_taken': customer(
    'Another export or program wrote the file at this key.',
    'Give the export its own prefix, for example {batch_export_id}.',
  ),
  'destination.files_differ': customer(
    'The delivered files of the interval are not as they were delivered, so nothing was changed.',
    'Ask your operator to run `sluice verify`, which names what is missing or different.',
  ),
  'destination.table_conflict': customer(
    'The rows do not match the columns of the Iceberg table.',
    'Cast the column to its earlier type in dsl_query, or create an export with another prefix.',
  ),
  'destination.table_damaged': customer(
    'Sluice cannot read the Iceberg table of the export.',
    'Restore the files in the metadata folder of its prefix, or create an export with another prefix.',
  ),
  'destination.unavailable': transient(
    'destination',
    'The destination is unavailable.',
    'If it persists, check that the destination works and that the workers can reach it.',
  ),
  'destination.throttled': transient(
    'destination',
    'The destination limits the request rate.',
    'If it persists, raise the limits of the destination.',
  ),
  'destination.stalled': transient(
    'destination',
    'The destination stopped accepting data.',
    'If it persists, check the destination, and the network between it and the workers.',
  ),
  'destination.invalid_answer': transient(
    'destination',
    'The destination sent a response that is too long or not valid.',
    'Check that endpoint_url is the address of an S3-compatible store.',
  ),
  'destination.conflict': transient(
    'destination',
    'Another writer changed the file at the same time.',
    'Make sure that nothing else writes to this prefix.',
  ),
  'destination.upload_lost': transient(
    'destination',
    'The destination no longer knows the upload.',
    'If it persists, check whether a rule of the bucket, or another program, ends uploads.',
  ),
  'destination.invalid_parts': transient(
    'destination',
    'The destination refused the number or the size of the parts of an upload.',
    'Set max_file_size_mb of the export, so that each file has fewer parts.',
  ),
  'destination.proxy_refused': transient(
    'destination',
    'The proxy of this installation refused the connection.',
    'Ask your operator to check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, and what the proxy allows.',
  ),
  'query.invalid': customer('The query is not valid.', 'Correct dsl_query of the export.'),
  'query.invalid_events': customer(
    'include_events or exclude_events contains a name that does not fit the type of the event column.',
    'Correct or remove the name in include_events or exclude_events of the export.',
  ),
  'source.model_invalid': customer(
    'Sluice cannot read the model as it is defined.',
    'Ask your operator to run `sluice models check` and to correct the key, tenant, interval or other columns of the model.',
  ),
  'model.version_without_trigger': customer(
    'Rows of the model can change while their version stays, so changes would be lost.',
    'Ask your operator to run what `sluice models trigger <model>` prints in the source database, for each partition too if its trigger is disabled.',
  ),
  'model.key_not_unique': customer(
    'Two rows of a project have the same key, so a reader of changes would have only one of them.',
    'Ask your operator to name columns as key_columns of the model that a unique index covers, together with the tenant column.',
  ),
  'source.schema_changed': customer(
    'A column has another type in the source database than in the model.',
    'Ask your operator to correct type in the model, or to set on_schema_change of the model to follow.',
  ),
  'source.permission_denied': customer(
    'A role may not read something in the source database.',
    'Grant the role the right that the error names.',
  ),
  'source.function_failed': customer(
    'A function, view or policy in the source database raised an error.',
    'Ask your operator to correct the function, view or policy that the error names.',
  ),
  'source.access_refused': lasting(
    'source',
    'The source database refuses the connections of Sluice.',
    'Ask your operator to correct the address, the password, the certificates or the rights that the error names.',
  ),
  'source.recovery_conflict': transient(
    'source',
    'The standby ended the statement because it had to replay changes of its primary.',
    'If it persists, set hot_standby_feedback to on or raise max_standby_streaming_delay on the standby.',
  ),
  'source.lock_released': transient(
    'source',
    'The run gave up the table that it was reading, because it held the table or its snapshot for too long.',
    'If it persists, use a faster destination, or backfill shorter intervals.',
  ),
  'source.out_of_resources': transient(
    'source',
    'The source database has reached a limit.',
    'Raise the limit that the error names, or end sessions of others.',
  ),
  'source.failed': transient(
    'source',
    'The source database reported an error.',
    'If it persists, ask your operator to look for the code of the error in the logs of Sluice and of the database.',
  ),
  'source.relation_missing': customer(
    'The relation or column does not exist in the source database.',
    'Correct the model or the query.',
  ),
  'source.row_too_large': customer(
    'A row is larger than the limit of this installation.',
    'In dsl_query, exclude the row or select less of it, for example left(properties.body, 1000). Or ask your operator to raise MAX_ROW_MIB.',
  ),
  'source.json_too_deep': customer(
    'A JSON value of a row is nested too deeply: many programs could not read it.',
    'In dsl_query, exclude the row or do not select the column, drop the property with a transformation, or change the row in the source.',
  ),
  'source.unavailable': transient(
    'source',
    'The source database is unavailable.',
    'If it persists, check that the source database works and that the workers can reach it.',
  ),
  'source.timeout': transient(
    'source',
    'The source database took too long.',
    'If it persists, add an index on the interval column.',
  ),
  'source.slow': transient(
    'source',
    'The source database takes long to send the rows of a run.',
    'Find what slows the query of the model in the source, such as a view without a fitting index or a lock. The session has the application name sluice-export.',
  ),
  'source.count_mismatch': transient(
    'source',
    'The number of rows read differs from the number of rows counted.',
    'If it persists, report it with the run id.',
  ),
  'source.unsupported': lasting(
    'source',
    'Sluice cannot export from the source database in its current state.',
    'Ask your operator to fix what the error names.',
  ),
  'source.standby': transient(
    'source',
    'The source database is a standby. A standby cannot show that an interval is complete.',
    'Ask your operator to set settle_url of the model or SOURCE_PRIMARY_URL.',
  ),
  'source.unknown_model': customer(
    'The model is not defined in this installation.',
    'Ask your operator to define the model, or delete the export.',
  ),
  'transformation.invalid': customer(
    'A step of the transformation chain cannot run.',
    'Correct the transformation config that the error names, or disable it.',
  ),
  'transformation.too_many_errors': customer(
    'A step of the transformation chain failed for too many rows.',
    'Correct the config of the step or raise its max_error_share.',
  ),
  'transformation.plugin_failed': customer(
    'One of your own plugins exceeded a limit, or its sandbox crashed.',
    'Correct the plugin that the error names, or disable its transformation config.',
  ),
  'transformation.sandbox_ended': transient(
    'internal',
    'The process of a plugin did not start, or another program ended it.',
    'If it persists, report it with the run id.',
  ),
  'transformation.needs_memory': lasting(
    'internal',
    'The plugins of the transformation chain need more memory than a worker has.',
    'Disable a transformation config with one of your own plugins, or ask your operator to raise WORKER_MEMORY_MB.',
  ),
  'run.unknown_history': {
    fault: 'internal',
    retryable: false,
    means:
      "The bucket has files of this interval from a run that is not in Sluice's database. Sluice paused the export.",
    remedy:
      "Ask your operator to check that no other copy of Sluice's database is in use, and then to run `sluice eras accept`. Then unpause the export.",
  },
  'run.crashed': lasting(
    'internal',
    'The worker crashed repeatedly on this run, even in a separate process, so Sluice stopped retrying it.',
    'Report this to your operator with the run id.',
  ),
  'source.rows_missing': customer(
    'Delivered rows are missing from the rows that would replace them, so the files stay as they are.',
    'Check why the source no longer has these rows: retention, another query, a policy, a table that was emptied. To keep the files, do nothing. To replace them all the same, start a backfill of the interval with missing_rows drop.',
  ),
  'run.late_rows_wait': customer(
    'Rows may have arrived late in this interval, and Sluice cannot add them by itself.',
    'Nothing was changed. Start a backfill of the interval: it makes the files anew, and refuses if delivered rows would go. Or accept the interval as it is.',
  ),
  'run.rows_rejected': customer(
    'Rows were rejected, and on_rejected of the export is fail. Nothing was committed.',
    'Correct the rows in the source, exclude them with dsl_query, or set on_rejected to warn. For infinite dates, set infinity to null or limit.',
  ),
  'run.lease_lost': transient(
    'internal',
    'Another worker took over the run.',
    'The other worker continues the run.',
  ),
  'run.cancelled': customer(
    'The run was cancelled.',
    'No action is needed, unless the interval is still to be exported.',
  ),
  'run.released': transient(
    'internal',
    'The worker was shut down.',
    'Another worker continues the run.',
  ),
  'secrets.undecryptable': lasting(
    'internal',
    'The stored credentials cannot be decrypted.',
    'Ask your operator to restore the key in ENCRYPTION_KEYS, or enter the credentials again.',
  ),
  'secrets.signing_key_lost': transient(
    'internal',
    'The key that signs manifests cannot be decrypted, so nothing is delivered.',
    'Ask your operator to restore the key in ENCRYPTION_KEYS, or to run `sluice keys rotate-signing --lost`.',
  ),
  'internal.database_unavailable': transient(
    'internal',
    "Sluice's own database was unavailable.",
    "If it persists, ask your operator to check Sluice's database.",
  ),
  'internal.disk_full': transient(
    'internal',
    'The temporary folder of the worker has no space left.',
    'Ask your operator for more space in the temporary folder of workers (TMPDIR).',
  ),
  'internal.temporary_folder': transient(
    'internal',
    'The temporary folder of the worker does not exist or cannot be written.',
    'Ask your operator to correct TMPDIR of the workers: `sluice doctor` there names the fault.',
  ),
  'internal.unexpected': transient(
    'internal',
    'An unexpected error happened.',
    'If it persists, report it with the run id.',
  ),
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof errorCatalogue;

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorCatalogue, text);
}

/** Characters of a detail. A server's words may have a whole value. */
const longestDetail = 4_000;

/** The export's owner sees `detail`: no secret, stack trace or data of another tenant. `cause` is for our own log only. */
export class SluiceError extends Error {
  readonly code: ErrorCode;
  readonly detail: string | undefined;

  /** @param detail may have words of others and keys: it is cut, gets one line, and shows no value of a folder */
  constructor(code: ErrorCode, detail?: string, cause?: unknown) {
    const shown = detail && oneLine(hideFolders(cutText(detail, longestDetail)), longestDetail);
    super(shown ? `${code}: ${shown}` : code, { cause });
    this.name = 'SluiceError';
    this.code = code;
    this.detail = shown;
  }

  get spec(): ErrorSpec {
    return errorCatalogue[this.code];
  }
}

/** Why a step of a transformation chain cannot run, or failed for too many rows. */
export class StepFault extends SluiceError {
  /** The id of its config. */
  readonly step: number;

  constructor(
    code: Extract<ErrorCode, `transformation.${string}`>,
    step: number,
    detail: string,
    cause?: unknown,
  ) {
    super(code, detail, cause);
    this.step = step;
  }
}

/** Turns anything thrown into a SluiceError; an unknown error becomes `internal.unexpected`. */
export function toSluiceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  // Destinations name their own full disks.
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new SluiceError('internal.disk_full', undefined, error);
  }
  if (isOfTemporaryFile(error)) return new SluiceError('internal.temporary_folder', code, error);
  return new SluiceError('internal.unexpected', undefined, error);
}
