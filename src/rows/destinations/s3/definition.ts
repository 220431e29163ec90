import { literalFolder } from '../../../foundation/domain/key-template.ts';
import { invalid, type Problem, problemsIn } from '../../../foundation/domain/problem.ts';
import { defineDestination } from '../define-destination.ts';
import type { DestinationContext } from '../destination.ts';
import { checkBucketInEndpoint } from './address.ts';
import { checkBucketName } from './bucket-name.ts';
import { connectS3, splitTag } from './client.ts';
import { type S3Config, s3Properties } from './config.ts';
import { openS3Destination } from './destination.ts';

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
