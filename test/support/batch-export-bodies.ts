/** The least body that creates an export. */
export function exportBody(changes: Readonly<Record<string, unknown>> = {}) {
  return { name: 'Events to S3', interval: 'hour', destination: s3(), ...changes };
}

export function s3(config: Readonly<Record<string, unknown>> = {}) {
  return {
    type: 'S3',
    config: {
      bucket_name: 'my-events',
      region: 'us-east-1',
      aws_access_key_id: 'AKIAIOSFODNN7EXAMPLE',
      aws_secret_access_key: 'canary-wJalrXUtnFEMI-K7MDENG',
      ...config,
    },
  };
}
