/** Fields of the API that are no longer there, each with what to use instead. A request that has one is refused. */
const struckFields: ReadonlyMap<string, string> = new Map([
  ['checksum_files', 'The manifest has the SHA-256 of each file.'],
  ['success_file', 'An interval is complete as soon as its manifest is there.'],
  ['latest_manifest', 'List the manifests below the prefix: each says its interval.'],
  ['digests', 'Ask for healing.started and healing.ended: one message for all exports of a cause.'],
  ['freshness_minutes', 'Set deadline_minutes or deadline_at.'],
]);

/** What to do about a field of a request that is no longer there; undefined if it never was. */
export function remedyOfStruck(name: string): string | undefined {
  const instead = struckFields.get(name);
  return instead && `Sluice no longer has it. Remove it. ${instead}`;
}
