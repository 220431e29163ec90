import { invalid, type Problem } from '../../../foundation/domain/problem.ts';
import type { S3Config } from './config.ts';

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
