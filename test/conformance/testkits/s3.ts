import { type DestinationTestkit, invalidFileConfigs } from './testkit.ts';

export const testkit: DestinationTestkit = {
  type: 'S3',
  keepsFiles: true,
  start: async (stores) => {
    const store = await stores.s3();
    return {
      config: {
        bucket_name: store.bucket,
        region: store.region,
        aws_access_key_id: store.accessKeyId,
        aws_secret_access_key: store.secretAccessKey,
        endpoint_url: store.endpoint,
      },
      context: {},
      invalid: [...invalidFileConfigs, ...invalidS3Configs],
      stop: () => store.stop(),
    };
  },
};

/** Each is merged into a valid config with keys and an endpoint. */
const invalidS3Configs = [
  { change: { aws_access_key_id: null }, attr: 'aws_access_key_id' },
  { change: { aws_secret_access_key: null }, attr: 'aws_secret_access_key' },
  { change: { aws_access_key_id: null, aws_secret_access_key: null }, attr: 'aws_access_key_id' },
  { change: { aws_access_key_id: 'AKIA…' }, attr: 'aws_access_key_id' },
  { change: { aws_access_key_id: 'AKIA ' }, attr: 'aws_access_key_id' },
  { change: { aws_secret_access_key: 'sécret' }, attr: 'aws_secret_access_key' },
  { change: { aws_secret_access_key: 'secret\n' }, attr: 'aws_secret_access_key' },
  { change: { kms_key_id: 'key' }, attr: 'kms_key_id' },
  { change: { kms_key_id: 'key', encryption: 'AES256' }, attr: 'kms_key_id' },
  { change: { endpoint_url: 'ftp://example.com' }, attr: 'endpoint_url' },
  { change: { endpoint_url: 'file:///etc/passwd' }, attr: 'endpoint_url' },
  { change: { endpoint_url: 'example.com' }, attr: 'endpoint_url' },
  { change: { endpoint_url: 'https://user:word@example.com' }, attr: 'endpoint_url' },
  { change: { endpoint_url: 'https://example.com?x=y' }, attr: 'endpoint_url' },
  { change: { bucket_name: 'acme', endpoint_url: 'https://x.example/acme' }, attr: 'endpoint_url' },
  {
    change: { bucket_name: 'acme', endpoint_url: 'https://x.example/v1/acme/' },
    attr: 'endpoint_url',
  },
  {
    change: { bucket_name: 'acme', endpoint_url: 'https://ACME.s3.eu-west-1.amazonaws.com' },
    attr: 'endpoint_url',
  },
  { change: { storage_class: 'DEEP_ARCHIVE' }, attr: 'storage_class' },
  { change: { object_tags: ['team=a', 'team=b'] }, attr: 'object_tags' },
  { change: { object_tags: ['team=a\n'] }, attr: 'object_tags' },
  { change: { bucket_name: 'a/b' }, attr: 'bucket_name' },
  { change: { bucket_name: 'a..b' }, attr: 'bucket_name' },
  { change: { bucket_name: 'Capital', endpoint_url: null }, attr: 'bucket_name' },
  { change: { bucket_name: '10.0.0.1', endpoint_url: null }, attr: 'bucket_name' },
  { change: { bucket_name: 'arn:aws:s3:::bucket' }, attr: 'bucket_name' },
];
