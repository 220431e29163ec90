import { Type } from 'typebox';
import type { Settings } from '../define-destination.ts';
import { nullable } from '../file-config.ts';

export const s3Properties = {
  bucket_name: Type.String({
    description: 'The bucket, which must exist.',
    minLength: 1,
    maxLength: 255,
    examples: ['acme-exports'],
  }),
  region: Type.String({
    description: 'The region of the bucket; `auto` or any word where the store has none.',
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9-]+$',
    examples: ['eu-central-1'],
  }),
  aws_access_key_id: Type.Optional(
    nullable(Type.String({ minLength: 1, maxLength: 256 }), {
      description: 'Access key; with its secret, or neither.',
      default: null,
      writeOnly: true,
    }),
  ),
  aws_secret_access_key: Type.Optional(
    nullable(Type.String({ minLength: 1, maxLength: 1024 }), {
      description: 'Secret of the access key.',
      default: null,
      writeOnly: true,
    }),
  ),
  role_arn: Type.Optional(
    nullable(
      Type.String({
        maxLength: 2048,
        pattern: '^arn:[a-z0-9-]+:iam::[0-9]{12}:role/[\\w+=,.@/-]+$',
      }),
      {
        description:
          'A role to assume. Its trust policy must require the external id of the project.',
        default: null,
        examples: ['arn:aws:iam::123456789012:role/exports'],
      },
    ),
  ),
  endpoint_url: Type.Optional(
    nullable(Type.String({ maxLength: 2048 }), {
      description: 'Address of a store other than AWS that speaks S3. Null: AWS.',
      default: null,
      examples: ['https://storage.example.com'],
    }),
  ),
  use_virtual_style_addressing: Type.Optional(
    Type.Boolean({
      description: 'Whether the bucket is named in the host rather than in the path.',
      default: false,
    }),
  ),
  encryption: Type.Optional(
    nullable(Type.Enum(['AES256', 'aws:kms']), {
      description: 'Encryption at rest. Null: as the bucket is set up.',
      default: null,
    }),
  ),
  kms_key_id: Type.Optional(
    nullable(Type.String({ minLength: 1, maxLength: 2048 }), {
      description: 'Id, alias or ARN of the KMS key. Only with encryption aws:kms.',
      default: null,
      examples: ['arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab'],
    }),
  ),
};

/** A config with its defaults filled in. */
export type S3Config = Settings<typeof s3Properties>;
