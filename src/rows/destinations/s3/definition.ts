import { literalFolder } from '../../../foundation/domain/key-template.ts';
import { invalid, type Problem, problemsIn } from '../../../foundation/domain/problem.ts';
import { defineDestination } from '../define-destination.ts';
import {
  allTraits,
  type Destination,
  type DestinationContext,
  type UploadJournal,
} from '../destination.ts';
import { checkBucketInEndpoint } from './address.ts';
import { connectS3, type S3Connection, splitTag } from './client.ts';
import { type S3Config, s3Properties } from './config.ts';
import { callDeadline, withDelayedAbort } from './call-deadline.ts';
import { checkDestination } from './check.ts';
import { commitManifest } from './manifest.ts';
import { ownerOf, runOf } from './object-metadata.ts';
import { deleteObjects, headObject, listObjects, listUploads, readObject } from './objects.ts';
import { probePutsOf, probeStore } from './probe.ts';
import { abortUpload } from './upload-doubts.ts';
import { openWriter } from './writer.ts';

export const s3Definition = defineDestination({
  type: 'S3',
  description: 'Amazon S3 or an S3-compatible store.',
  properties: s3Properties,
  keepsFiles: true,
  buffersParts: true,
  holdsTables: true,
  keyIdProperty: 'aws_access_key_id',
  validate: (config, context) => [
    ...checkBucketName(config),
    ...checkCredentials(config, context),
    ...checkEndpoint(config, context),
    ...checkEncryption(config),
    ...checkBucketInEndpoint(config),
    ...checkStorageClass(config),
    ...checkTags(config),
  ],
  place: ({ endpoint_url, region, bucket_name }) =>
    `${storeOf(endpoint_url, region)} ${bucket_name}`,
  uri: ({ bucket_name }, key) => `s3://${bucket_name}/${key}`,
  open: (config, { prefix }, context, owner, traits) =>
    openS3Destination(connectS3(config, context, owner, traits), literalFolder(prefix), context),
});

/** AWS's own endpoints, of one region or of all. */
const awsHost =
  /^s3(?:[.-](?:accelerate|dualstack|fips|external-1|[a-z]{2}(?:-[a-z]+)+-\d))*\.amazonaws\.com(?:\.cn)?$/;

/** Identifies a store, however its address is spelled. AWS has one: bucket names are unique across regions. */
function storeOf(endpoint: unknown, region: string): string {
  const china = region.startsWith('cn-') ? 'aws-cn' : 'aws';
  const ofRegion = region.startsWith('us-gov-') ? 'aws-us-gov' : china;
  if (endpoint === null) return ofRegion;
  const text = String(endpoint);
  if (!URL.canParse(text)) return text;
  // The URL parser makes the host lower case and drops the scheme's default port.
  const { protocol, host, hostname, pathname } = new URL(text);
  if (awsHost.test(hostname)) return ofRegion;
  const path = pathname.split('/').filter(Boolean).join('/');
  return `${protocol}//${host}${path === '' ? '' : `/${path}`}`;
}

function checkCredentials(config: S3Config, context: DestinationContext): Problem[] {
  const { aws_access_key_id: id, aws_secret_access_key: secret } = config;
  const problem = (attr: string, detail: string): Problem[] => [{ attr, code: 'required', detail }];
  const visible = [
    ...checkVisible('aws_access_key_id', id),
    ...checkVisible('aws_secret_access_key', secret),
  ];
  if (id !== null && secret === null) {
    return [...visible, ...problem('aws_secret_access_key', 'Required with aws_access_key_id.')];
  }
  if (id === null && secret !== null) {
    return [...visible, ...problem('aws_access_key_id', 'Required with aws_secret_access_key.')];
  }
  if (id === null && !context.allowAmbientCredentials) {
    const detail = 'Required: this installation does not share its own credentials with exports.';
    return [...problem('aws_access_key_id', detail), ...problem('aws_secret_access_key', detail)];
  }
  const isAws = storeOf(config.endpoint_url, config.region).startsWith('aws');
  if (isAws && /^ASIA[A-Z0-9]{16}$/.test(id ?? '')) {
    const detail =
      'This is a temporary key, which ends within hours and needs a session token. Set role_arn to its role, and use the key of a user (AKIA…) that may assume the role.';
    return [invalid('aws_access_key_id', detail), ...visible];
  }
  return visible;
}

/** A request names it in a header, which cannot hold other characters; no store gives out such keys. */
function checkVisible(attr: string, name: string | null): Problem[] {
  const detail = 'Use ASCII letters, digits and signs only, without spaces.';
  return problemsIn([name !== null && !/^[\x21-\x7e]+$/.test(name), attr, detail]);
}

function checkEndpoint(
  { endpoint_url, bucket_name, use_virtual_style_addressing: isVirtual }: S3Config,
  { refusalOf }: DestinationContext,
): Problem[] {
  if (endpoint_url === null) return [];
  const problem = (detail: string) => [invalid('endpoint_url', detail)];
  if (!URL.canParse(endpoint_url)) return problem('Use a URL, such as https://s3.example.com.');
  const url = new URL(endpoint_url);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return problem('Must start with https:// or http://.');
  }
  if (url.username !== '' || url.password !== '')
    return problem('Remove the credentials: use aws_access_key_id and aws_secret_access_key.');
  if (url.search !== '' || url.hash !== '')
    return problem('Remove the query and the fragment (what follows ? or #).');
  // Has no effect on an IP address.
  if (isVirtual) url.hostname = `${bucket_name}.${url.hostname}`;
  const refusal = refusalOf?.(url) ?? null;
  return refusal === null ? [] : problem(refusal);
}

function checkEncryption({ encryption, kms_key_id }: S3Config): Problem[] {
  if (encryption === 'aws:kms') return checkVisible('kms_key_id', kms_key_id);
  const detail = 'Only for encryption aws:kms. Set encryption to aws:kms, or remove the key.';
  return problemsIn([kms_key_id !== null, 'kms_key_id', detail]);
}

/** Nothing can be read from an archive until it is restored. */
function checkStorageClass({ storage_class: name }: S3Config): Problem[] {
  const isArchive = /^(?:GLACIER|DEEP_ARCHIVE|SNOW|EXPRESS_ONEZONE|COLD_ARCHIVE|ARCHIVE)$/;
  const detail = `${name} does not let files be read at once. Use a class such as GLACIER_IR, or a lifecycle rule.`;
  return problemsIn([isArchive.test(name ?? ''), 'storage_class', detail]);
}

function checkTags({ object_tags: tags }: S3Config): Problem[] {
  const keys = (tags ?? []).map((tag) => splitTag(tag)[0]);
  const twice = keys.find((key, at) => keys.indexOf(key) !== at);
  const isOdd = (tags ?? []).some((tag) => !/^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u.test(tag));
  return problemsIn(
    [twice !== undefined, 'object_tags', `The key ${twice} is there twice.`],
    [isOdd, 'object_tags', 'Use letters, digits, spaces and _ . : / + - @ only.'],
  );
}

/** People enter these instead of the name of a bucket. */
interface OtherForm {
  readonly form: RegExp;
  /** A name of this form may be a bucket of another store. */
  readonly onlyAtAws?: true;
  /** Says what the form is, and what to write where. Gets what the groups of the form matched. */
  readonly says: (first: string, second: string) => string;
}

const write = (bucket: string, prefix: string) => {
  // An ARN of a policy may end in a star.
  const folder = prefix.replace(/[?#*].*$/, '').replace(/^\/+|\/+$/g, '');
  return `Set bucket_name to ${bucket.replace(/\*+$/, '')}${folder === '' ? '' : ` and prefix to ${folder}/`}.`;
};

/** The first that fits decides. */
const otherForms: readonly OtherForm[] = [
  {
    form: /^arn:[\w-]+:s3express:|--x-s3$/,
    onlyAtAws: true,
    says: () =>
      'This is a directory bucket (S3 Express One Zone), which is not supported. Use a general purpose bucket.',
  },
  {
    form: /^(?:gs:\/\/|https:\/\/storage\.(?:googleapis|cloud\.google)\.com\/)([^/\s]+)(\/\S*)?$/,
    says: (bucket, prefix) =>
      `This is an address of Google Cloud Storage. ${write(bucket, prefix)} Set endpoint_url to https://storage.googleapis.com, and use an HMAC key.`,
  },
  {
    form: /^(?:abfss?|wasbs?):\/\/|\.core\.windows\.net/,
    says: () =>
      'This is an address of Azure Storage, which is no S3-compatible store. Use a bucket of another store.',
  },
  {
    form: /^arn:[\w-]+:s3:::([^/\s:]+)(\/\S*)?$/,
    says: (bucket, prefix) => `This is the ARN of a bucket. ${write(bucket, prefix)}`,
  },
  {
    form: /^arn:[\w-]+:s3::\d+:accesspoint|\.mrap$|\.accesspoint\.s3-global\./,
    says: () =>
      'This is a multi-region access point, which is not supported. Set bucket_name to one of its buckets and region to that of the bucket.',
  },
  {
    form: /^arn:[\w-]+:s3:[\w-]+:\d+:accesspoint|\.s3-accesspoint[\w-]*\./,
    says: () =>
      'This is an access point. Set bucket_name to its alias, which ends in -s3alias, and region to that of the access point.',
  },
  {
    form: /^arn:/i,
    says: () => 'This is an ARN. Set bucket_name to the name of a bucket alone.',
  },
  {
    form: /^(?:https?:\/\/)?([^/\s]+)\.s3(?:[.-][\w.-]*)?\.amazonaws\.com(?:\.cn)?(\/\S*)?$/i,
    says: (bucket, prefix) => `This is the address of a bucket. ${write(bucket, prefix)}`,
  },
  {
    form: /^https?:\/\/s3[\w.-]*\.amazonaws\.com(?:\.cn)?\/([^/\s]+)(\/\S*)?$/i,
    says: (bucket, prefix) => `This is the address of a bucket. ${write(bucket, prefix)}`,
  },
  {
    form: /^https?:\/\/[\w.-]*console\.(?:aws\.amazon\.com|amazonaws\.cn)\/s3\/(?:buckets|object)\/([^/?#\s]+)/i,
    says: (bucket) => `This is an address of the console of AWS. ${write(bucket, '')}`,
  },
  {
    form: /^https?:\/\//i,
    says: () =>
      'This is a URL. Set bucket_name to the name of the bucket alone, and endpoint_url to the address of the store, unless it is AWS.',
  },
  {
    form: /^[a-z][a-z\d]*:\/\/([^/\s]+)(\/\S*)?$/i,
    says: (bucket, prefix) => `This is a URI. ${write(bucket, prefix)}`,
  },
  {
    form: /^(?=.*\/)\/*([^/\s]+)(\/\S*)?$/,
    says: (bucket, prefix) => `This is a path. ${write(bucket, prefix)}`,
  },
  {
    form: /^[^:\s]+:([^:\s]+)$/,
    says: (bucket) =>
      `This is a bucket with its tenant. ${write(bucket, '')} Use an access key of that tenant.`,
  },
  {
    form: /--ol-s3$/,
    onlyAtAws: true,
    says: () =>
      'This is an Object Lambda access point, which takes no files. Set bucket_name to the bucket behind it.',
  },
];

/** AWS's naming rules; other stores also have old names with capitals and underscores. */
const names = {
  aws: {
    form: /^(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    detail: 'Use 3 to 63 lower case letters, digits, hyphens and dots.',
  },
  other: {
    form: /^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/,
    detail: 'Use 2 to 255 letters, digits, hyphens, underscores and dots.',
  },
};

/** With an ARN, a slash or a colon the SDK would talk to another host. */
export function checkBucketName({
  bucket_name: name,
  endpoint_url: endpoint,
}: S3Config): Problem[] {
  const isAws = endpoint === null || /\.amazonaws\.com(?:\.cn)?(?=[:/]|$)/.test(endpoint);
  const problem = (detail: string) => [invalid('bucket_name', detail)];
  for (const { form, onlyAtAws, says } of otherForms) {
    const match = onlyAtAws && !isAws ? null : form.exec(name);
    if (match) return problem(says(match[1] ?? '', match[2] ?? ''));
  }
  const { form, detail } = endpoint === null ? names.aws : names.other;
  return form.test(name) && !name.includes('..') ? [] : problem(detail);
}

/** A probe during a commit delays a run that holds a lease. */
const probePatienceMs = 60_000;

/** Within the default of SHUTDOWN_GRACE_SECONDS. */
const commitPatienceMs = 10_000;

/** @param folder what all keys begin with; probes put their objects there */
export function openS3Destination(
  connection: S3Connection,
  folder: string,
  context: DestinationContext,
): Destination {
  /** True if the connection's traits are only partly known: a commit probed no more than it needed. */
  let isAssuming = false;
  const { sharedProbes: shared } = context;
  const probePuts = async (signal: AbortSignal, journal?: UploadJournal) => {
    shared?.forget(connection.store);
    const knownTraits = connection.traits;
    const puts = await probePutsOf(connection, folder, signal, journal);
    isAssuming ||= knownTraits === null;
    // A store that was not probed is assumed to behave like S3.
    connection.traits = { ...(knownTraits ?? allTraits), ...puts };
    return connection.traits;
  };
  const probeAgain = (signal: AbortSignal, journal?: UploadJournal) =>
    probePuts(callDeadline(signal, probePatienceMs), journal);
  return {
    get traits() {
      return isAssuming || connection.isDoubted ? null : connection.traits;
    },
    async probe(signal, journal) {
      const probe = () => probeStore(connection, folder, signal, journal);
      const traits = shared
        ? await shared.find(connection.store, connection.changedForMs, probe, signal)
        : await probe();
      connection.traits = { ...traits, parts: connection.parts };
      isAssuming = false;
      connection.isDoubted = false;
      return connection.traits;
    },
    createFile(options, journal, signal) {
      const probe = (own: AbortSignal) => probeAgain(own, journal);
      return openWriter({ connection, limits: context, journal, signal, probe }, options);
    },
    abortUpload: (upload, signal) => abortUpload(connection, upload, signal),
    listUploads: (prefix, signal) => listUploads(connection, prefix, signal),
    commitManifest(
      key,
      body,
      expected,
      { confirm = async () => {}, ours = [], lease, journal, signal: given } = {},
    ) {
      // A put that is cut off may still take effect, so a shutdown waits for its answer.
      return withDelayedAbort(given, commitPatienceMs, (signal) => {
        const probe = () => probeAgain(signal, journal);
        const options = { confirm, probe, ours, lease, signal };
        return commitManifest(connection, key, body, expected, options);
      });
    },
    readFile: (key, options) => readObject(connection, key, options),
    async statFile(key, signal) {
      const head = await headObject(connection, key, callDeadline(signal));
      if (head === null) return null;
      const { ContentLength: bytes = 0, ETag: etag = null, Metadata: metadata } = head;
      const { modifiedAt = null } = head;
      return { bytes, etag, owner: ownerOf(metadata), run: runOf(metadata), modifiedAt };
    },
    linkFile: (key, { seconds, name, signal }) =>
      connection.request(
        (client) =>
          client.link(key, seconds, {
            'response-content-disposition': `attachment; filename="${name}"`,
          }),
        signal,
      ),
    listFiles: (prefix, signal, after) => listObjects(connection, prefix, signal, after),
    deleteFiles: (keys, signal) => deleteObjects(connection, keys, signal),
    test: (signal) => checkDestination(connection, folder, context, signal),
    close: async () => connection.close(),
  };
}
