/**
 * What each operation does, by its name, beyond its one-line summary. The operations of an organization and of
 * a project share a text.
 */
const descriptions: Readonly<Record<string, string>> = {
  listBatchExports:
    'Each export comes with its newest runs, its high-water mark and the intervals without data. `health`, `search` and `ordering` choose and order all exports, not only those of a page. Follow `next` for more.',
  countBatchExports:
    'Each export has exactly one health, so the counts add up to the total. The list of exports takes a health as a filter.',
  listProjects:
    'With the number of exports of each health. It needs a key of the whole organization.',
  createBatchExport:
    'The schedule begins at once, or at `start_at`. Send an Idempotency-Key, so that a request whose answer was lost can be sent again without creating a second export. With `unique_name`, it is refused if the project has an export of this name: two clients that apply the same definition make one export. Secrets of the destination are encrypted and never shown again.',
  retrieveBatchExport: 'Secrets of the destination are left out.',
  updateBatchExport:
    'Fields that are not sent keep their values. The model and the type of the destination cannot change. A new prefix or bucket moves the export: later files go there, and manifests at the former place are replaced by ones that say so.',
  replaceBatchExport:
    'As PATCH, but name, destination and interval must be sent. Optional fields that are not sent keep their values.',
  deleteBatchExport:
    'Runs and backfills that are live are cancelled. Files that were exported stay in the bucket.',
  pauseBatchExport:
    'No new interval is exported. Runs that are live finish. Pausing a paused export changes nothing.',
  unpauseBatchExport:
    'The schedule continues with the next interval. With `backfill`, the intervals that were missed during the pause are exported too; if that is refused, the export stays paused.',
  backfillBatchExport:
    'The bounds are widened to whole intervals. With `dry_run` it only answers which runs it would make. Otherwise the answer is the export with `backfill_id`; ask for that backfill to see its progress.',
  listBackfills: 'With their progress. Follow `next` for more.',
  retrieveBackfill: 'Ask again every few seconds until `status` is no longer `Running`.',
  cancelBackfill:
    'No further runs begin. `running` says whether live runs finish or are cancelled; they are cancelled by default.',
  previewSchedule:
    'In UTC and in the timezone of the export: a day of a clock change has 23 or 25 hours.',
  testDestination:
    'Connects, writes a marker object, reads what the store supports and removes the marker. It stops at the first step that fails and says what to do. It changes nothing in Sluice. With a `destination` it tests the changed config before you save it: if more than file settings change, send each secret again.',
  testNewDestination:
    'As the test of a saved export, for the body of a new one. Only `destination` and `model` count, and, for `decimal_columns`, the query and the transformations. Nothing is saved.',
  previewNewRows:
    'As the preview of a saved export, for the body of a new one. Only the model, the query, the transformations, the event filters and `decimal_columns` count. Nothing is saved.',
  previewChangedRows:
    'As the preview, with a change that is not saved. Fields that are not sent keep their values.',
  previewRows:
    'Of the newest rows of the source, with the query, the event filters and the transformations of the export. Nothing is written.',
  listActivity: 'Created, changed, paused and so on, with the API key. Secrets are masked.',
  retrieveCoverage:
    'Every interval that the schedule or a backfill asked for, as merged ranges, or as counts per day with `bucket=day`. The blocker is the interval that holds the high-water mark.',
  retrieveThroughput:
    'Of the newest 200 exported intervals; `limit` and `before` choose others. Made for charts.',
  acceptCoverage:
    'An accepted interval stays as it is and no longer holds the high-water mark. This is recorded in the activity, with the reason.',
  listBatchExportRuns:
    'One run is the work for one data interval; a retry is a new run. Follow `next` for more.',
  retrieveBatchExportRun:
    'Its rows, bytes and files, and `latest_error` with what to do. `next_attempt_at` says when it is retried.',
  listBatchExportRunFiles:
    'Only files that are current: if another run has exported the interval since, `current_run` names it. The manifest is listed too.',
  cancelBatchExportRun:
    'Its worker stops at the next heartbeat and leaves no files behind. A run that has begun to commit completes.',
  retryBatchExportRun:
    'If the files would be the same, nothing is written. Otherwise new files replace the old ones when the manifest is put.',
  listBatchExportLogs: 'Of the export and of all its runs, newest first.',
  listBatchExportRunLogs: 'Of one run, newest first.',
  tailBatchExportRunLogs:
    'Without a cursor it answers with the newest entries. Ask again every few seconds, with the cursor of the last answer, until `ended` is true and `has_more` is false. A client that lost its connection goes on with its last cursor and misses nothing.',
  retrieveMe:
    'Its name, its scopes, its organization and the projects it has access to. Any valid key may ask. Use it to offer only what the key allows.',
  retrieveCapabilities:
    'Destinations, models, intervals, file formats and limits. Any valid key may ask. Use it to offer only what this installation has.',
  listNotificationTargets:
    'Webhooks and e-mail addresses that are notified of changes. Follow `next` for more.',
  retrieveNotificationTarget: 'The URL and the secret of a webhook are never shown again.',
  updateNotificationTarget:
    'Fields that are not sent keep their values. Enabling a target that Sluice disabled begins to send again.',
  deleteNotificationTarget: 'What waits to be sent to it is not sent.',
  listNotificationDeliveries:
    'Each with its state, its attempts and the answer of the receiver. Follow `next` for more.',
  listTransformationConfigs:
    'The steps that rows of the project pass through, first to last. Exports with `transformations: true` use them.',
  createTransformationConfig:
    'The step is put at the end, unless `order` says otherwise. Runs that have begun keep the chain that they began with.',
  rearrangeTransformationConfigs:
    'Takes the new `order` of some steps, by their ids, and answers with the whole chain.',
  retrieveTransformationConfig: 'Values of secret settings are left out.',
  retrieveTransformationConfigFrontend: 'The same as the step itself.',
  updateTransformationConfig:
    'A change of what the step does makes a new version. Runs that have begun keep the version that they began with.',
  deleteTransformationConfig: 'Runs that have begun still use it.',
  startTransformationJob:
    'The plugin of the step defines the jobs. An unknown one is refused with the names of the others.',
  tryTransformations: 'Shows each row before and after each step. Nothing is stored.',
  listPlugins: 'Those that a step of a transformation chain can use.',
  installPlugin:
    'The source is checked and compiled in a sandbox first. A plugin has no access to files or the network.',
  retrievePlugin: 'With its settings, and the source if it is your own.',
  updatePlugin:
    'A new source makes a new version of the steps that use it. Runs that have begun keep the one that they began with.',
};

/** For the schema of a route; a test finds operations that have none. */
export function describeOperation(name: string): { readonly description?: string } {
  const description = descriptions[name];
  return description === undefined ? {} : { description };
}
