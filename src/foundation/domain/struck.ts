/** Fields of the API that are no longer there, each with what to use instead. A request that has one is refused. */
const struckFields: ReadonlyMap<string, string> = new Map([
  ['parquet_encodings', 'Files have the encodings that every reader of Parquet knows.'],
  ['checksum_files', 'The manifest has the SHA-256 of each file.'],
  ['success_file', 'An interval is complete as soon as its manifest is there.'],
  ['latest_manifest', 'List the manifests below the prefix: each says its interval.'],
  ['digests', 'Ask for healing.started and healing.ended: one message for all exports of a cause.'],
  ['freshness_minutes', 'Set deadline_minutes or deadline_at.'],
]);

/** Fields that other programs have and Sluice never had, each with what to send instead. */
const foreignFields: ReadonlyMap<string, string> = new Map([
  [
    'aws_session_token',
    'Keys with a session token end within hours, and an export goes on. Remove it and set role_arn: Sluice assumes the role for each run.',
  ],
  ...['integration', 'integration_id'].map(
    (name) =>
      [
        name,
        'Sluice has no integrations. Remove it and send the credentials in the config of the destination: aws_access_key_id and aws_secret_access_key, or role_arn.',
      ] as const,
  ),
]);

/** The remedy for a field of a request that is no longer there, or never was; undefined if nothing is known of it. */
export function remedyOfStruck(name: string): string | undefined {
  const instead = struckFields.get(name);
  return instead ? `Sluice no longer has it. Remove it. ${instead}` : foreignFields.get(name);
}
