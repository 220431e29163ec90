import { Type } from 'typebox';
import type { Settings } from '../define-destination.ts';
import { optional } from '../file-config.ts';

export const s3Properties = {
  bucket_name: Type.String({
    description: 'Name of the bucket. It must exist.',
    minLength: 1,
    maxLength: 255,
    examples: ['acme-exports'],
  }),
  region: Type.String({
    description: 'Region of the bucket. If the store has no regions, enter `auto` or any word.',
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9_-]+$',
    examples: ['eu-central-1'],
  }),
  aws_access_key_id: optional(
    Type.String({ minLength: 1, maxLength: 256 }),
    'ID of the access key. Set both the key ID and the secret, or neither.',
    { writeOnly: true },
  ),
  aws_secret_access_key: optional(
    Type.String({ minLength: 1, maxLength: 1024 }),
    'Secret of the access key.',
    { writeOnly: true },
  ),
  role_arn: optional(
    Type.String({ maxLength: 2048, pattern: '^arn:[a-z0-9-]+:iam::[0-9]{12}:role/[\\w+=,.@/-]+$' }),
    'ARN of a role that Sluice assumes. Its trust policy must require the external ID of the project.',
    { examples: ['arn:aws:iam::123456789012:role/exports'] },
  ),
  endpoint_url: optional(
    Type.String({ maxLength: 2048 }),
    'URL of an S3-compatible store. Leave empty for AWS.',
    { examples: ['https://storage.example.com'] },
  ),
  use_virtual_style_addressing: Type.Optional(
    Type.Boolean({
      description: 'Put the bucket name into the host of the URL instead of the path.',
      default: false,
    }),
  ),
  encryption: optional(
    Type.Enum(['AES256', 'aws:kms']),
    'Encryption at rest. Leave empty for the default of the bucket.',
  ),
  kms_key_id: optional(
    Type.String({ minLength: 1, maxLength: 2048 }),
    'ID, alias or ARN of the KMS key. Only for encryption aws:kms.',
    {
      examples: ['arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'],
    },
  ),
  acl: optional(
    Type.Enum(['private', 'bucket-owner-read', 'bucket-owner-full-control']),
    'Access list of each object. A bucket of another account may require bucket-owner-full-control. Leave empty for the default of the bucket.',
    { examples: ['bucket-owner-full-control'] },
  ),
  expected_bucket_owner: optional(
    Type.String({ pattern: '^[0-9]{12}$' }),
    'ID of the AWS account that owns the bucket. The store refuses each request if another account owns it.',
    { examples: ['123456789012'] },
  ),
  storage_class: optional(
    Type.String({ maxLength: 40, pattern: '^[A-Z][A-Z0-9_]*$' }),
    'Storage class of the data files, such as STANDARD_IA, INTELLIGENT_TIERING or GLACIER_IR. Manifests and table metadata have the default class. Archive classes are not possible, because files must be readable at once.',
    { examples: ['INTELLIGENT_TIERING'] },
  ),
  object_tags: optional(
    Type.Array(
      Type.String({ minLength: 2, maxLength: 385, pattern: '^[^=]{1,128}=[^=]{0,256}$' }),
      {
        maxItems: 10,
      },
    ),
    'Tags of each object, as key=value. At most 10. A key has at most 128 characters and a value at most 256. The credentials need s3:PutObjectTagging.',
    { examples: [['team=data', 'cost-center=42']] },
  ),
};

export type S3Config = Settings<typeof s3Properties>;
