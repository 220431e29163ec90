import { type TProperties, type TSchema, Type } from 'typebox';
import type { Scope } from '../../foundation/security/scopes.ts';
import type { Request } from './api.ts';
import { loadBatchExport } from './batch-exports/load.ts';
import { Int, Text } from './shapes.ts';

/** The effect of each operation, by its name, beyond its summary. */
const descriptions: Readonly<Record<string, string>> = {
  listBatchExports:
    'Returns each export with its latest runs, its high-water mark and its intervals without data. `health`, `search` and `ordering` apply to all exports, not only to one page. Follow `next` for more.',
  summarizeBatchExports:
    'The same list, but of each export only its health, its latest runs and where its files are: a fifth of the bytes. Send `If-None-Match` with the `ETag` of the last answer: if nothing has changed, the answer is 304 without a body.',
  countBatchExports:
    'Each export has exactly one health, so the counts add up to the total. The list of exports accepts a health as a filter.',
  createBatchExport:
    'The schedule starts immediately, or at `start_at`. Send an Idempotency-Key: if the answer is lost, you can repeat the request without creating a second export. With `unique_name`, the API refuses the request if the project already has an export of this name. So two clients that apply the same definition create only one export. Secrets of the destination are encrypted and never shown again.',
  retrieveBatchExport: 'The answer does not contain the secrets of the destination.',
  updateBatchExport:
    'Omitted fields keep their values. You cannot change the model and the type of the destination. A new prefix or bucket moves the export: new files go there, and manifests at the old place are replaced by manifests that name the new place.',
  replaceBatchExport:
    'Like PATCH, but name, destination and interval are required. Omitted optional fields keep their values.',
  deleteBatchExport: 'Sluice cancels live runs and backfills. Exported files stay in the bucket.',
  pauseBatchExport:
    'Sluice exports no new intervals. Live runs finish. If the export is already paused, nothing changes.',
  unpauseBatchExport:
    'The schedule continues with the next interval. With `backfill`, Sluice also exports the intervals that were missed during the pause; with `retry_missing`, the requested intervals that have no data, such as those whose failures caused the pause. If that is refused, the export stays paused. With `dry_run`, the answer only says how many intervals these are.',
  backfillBatchExport:
    'Sluice widens the bounds to whole intervals. With `dry_run`, the answer only lists the runs that the backfill would create, how many rows each interval has delivered, how many the source has now, and how many would go. If delivered rows are missing from the source, the run of their interval fails and its files stay, unless `missing_rows` is `drop`. Otherwise the answer is the export with `backfill_id`. Retrieve that backfill to see its progress.',
  runBatchExportNow:
    'Starts a backfill of the intervals that have ended and have no data, from `start_at` on, or from the interval in which the export was created. Without such an interval it starts nothing, and `reason` says why: nothing is due, the export is paused, or a backfill is running. The present interval is exported when it ends.',
  listBackfills: 'Returns each backfill with its progress. Follow `next` for more.',
  retrieveBackfill: 'Poll every few seconds until `status` is no longer `Running`.',
  createBackfill:
    'The form of a PostHog client. Like the backfill of an export, but the answer has only the backfill. For an export per day or week, a bound may be a date.',
  listTestSteps: 'The form of a PostHog client. Each type of destination has one step.',
  runTestStep:
    'The form of a PostHog client. Runs all checks of the destination of the export, with the changes of the body, as one step.',
  runTestStepNew:
    'The form of a PostHog client. Runs all checks of a destination that is not saved, as one step.',
  cancelBackfill:
    'No further runs start. `running` says if live runs finish or are cancelled. By default, they are cancelled.',
  previewSchedule:
    'Returns times in UTC and in the timezone of the export. On the day of a clock change, a day has 23 or 25 hours.',
  testDestination:
    'Connects, writes a marker object, finds out what the store supports, and removes the marker. The test stops at the first step that fails and says what to do. It changes nothing in Sluice. With a `destination`, it tests the changed config before you save it. If you change more than file settings, send each secret again.',
  testNewDestination:
    'Like the test of a saved export, but for the body of a new export. It uses only `destination` and `model`. For `decimal_columns` and `partition_by`, it also uses the query and the transformations. Nothing is saved.',
  retrieveNewQuery:
    'Returns `dsl_query` with the conditions of `filters` in its WHERE, as create would store it. Compare it with a stored export to find out if a change is one. Nothing is read from the source, and nothing is saved.',
  previewRows:
    'Returns the newest rows of the source after the query, the event filters and the transformations of the export. Nothing is written.',
  tryRows:
    'Shows rows of a saved export (`id`), of a change of it, or of an export that is not saved: it uses only the model, the query, the transformations, the event filters, `decimal_columns` and `partition_by`. With `rows`, it shows these rows instead. `configs` are steps to try in place of the stored chain, which `transformations` applies. With `trace`, the answer has what each step does to each row. Nothing is saved. Which scopes the key needs depends on the body: `batch_export:read` for rows of the source, `batch_export:write` to choose them by a query, a filter or a destination, `plugin:write` for `configs` and `rows`. An export that is not saved needs one of the last two.',
  listActivity:
    'Lists who created, changed or paused the export, with the API key. Secrets are masked.',
  retrieveCoverage:
    'Returns every interval that the schedule or a backfill requested. Intervals with the same state are merged into ranges. The blocker is the interval that stops the high-water mark.',
  listStatements:
    'Lists the signed statements of what was delivered, newest first. A statement is made each day, and by POST.',
  createStatement:
    'Makes a signed statement of all that has changed since the one before. A worker puts it beside the files soon. The answer is the head.',
  retrieveStatementHead:
    'Keep number and digest elsewhere: with them the checker finds statements that were taken away.',
  createAcknowledgement:
    'Says which statement the receiver has loaded, and how many rows of the export it holds then. The newest acknowledgement is in the next statement. The answer is the head: `acknowledged.difference` compares the rows with the balance.',
  retrieveErasure:
    'Says, with a signature, which files an erasure has replaced, by which statements, and what was left. The erasure printed the request; a booking `erased` of a statement has it. 404 until a statement has it.',
  retrieveDeliveryRecord:
    'Says, with a signature, what the newest statements have of the intervals that begin in the month, for each export. At most 1,000 exports; `more` counts the others.',
  retrieveStatement: 'Returns the bytes as they are signed, and as they are at the destination.',
  listExportUsage:
    'Counts what the current files of the intervals of the month have: the sums of the rows and bytes of their manifests. An export that was deleted counts as long as its history is kept. With `format=csv`, the answer is a file.',
  acceptCoverage:
    'An accepted interval stays as it is and no longer stops the high-water mark. Late rows that waited for this decision are not added. The activity records this with the reason.',
  listBatchExportRuns:
    'A run exports one data interval. A retry is a new run. Follow `next` for more.',
  retrieveBatchExportRun:
    'Returns the rows, bytes and files of the run. `latest_error` says what to do. `next_attempt_at` is the time of the next retry.',
  listBatchExportRunFiles:
    'Returns the manifest and the files, but only current ones. If another run has exported the interval since then, `current_run` names it.',
  linkBatchExportRunFile:
    'Makes a presigned link to a file or manifest that the list of files of the run names. It needs the scope `file:read`, which no other scope implies: the link alone reads the rows until it expires. The changes of the export record each link. The link has the ID, not the secret, of the access key. A destination that is no store has no links, and neither have credentials that cannot read.',
  cancelBatchExportRun:
    'The worker stops at its next heartbeat and leaves no files behind. A run that has begun to commit completes.',
  retryBatchExportRun:
    'If the files are the same, nothing is written. Otherwise new files replace the old ones when the manifest is written. If delivered rows are missing from the new files, the run fails and the old files stay, unless `missing_rows` is `drop`. A retry of a run that adds late rows adds late rows; it refuses `missing_rows`.',
  listBatchExportLogs: 'Returns the log of the export and of all its runs, newest first.',
  listBatchExportRunLogs: 'Returns the log of one run, newest first.',
  retrieveMe:
    'Returns the name, the scopes, the organization and the projects of the API key. Every valid key can use this. A client can use it to offer only what the key allows.',
  retrieveCapabilities:
    'Returns destinations, models, intervals, file formats and limits. Every valid key can use this. A client can use it to offer only what this installation supports.',
  listNotificationTargets:
    'Lists the webhooks and e-mail addresses that Sluice notifies of changes. Follow `next` for more.',
  retrieveNotificationTarget: 'The URL and the secret of a webhook are never shown again.',
  updateNotificationTarget:
    'Omitted fields keep their values. If you enable a target that Sluice disabled, Sluice sends to it again.',
  deleteNotificationTarget: 'Waiting notifications are not sent.',
  listNotificationDeliveries:
    'Returns each delivery with its state, its attempts and the answer of the receiver. Follow `next` for more.',
  listTransformationConfigs:
    'Lists the steps in the order in which they process rows. Exports with `transformations: true` use them.',
  createTransformationConfig:
    'The step is added to the end of the chain, unless `order` sets another place. Runs that have already started keep their chain.',
  rearrangeTransformationConfigs:
    'Send the new `order` of some steps, by their ids. The answer is the whole chain.',
  retrieveTransformationConfig: 'The answer does not contain the values of secret settings.',
  retrieveTransformationConfigFrontend: 'Returns the same as the step itself.',
  updateTransformationConfig:
    'If you change what the step does, it gets a new version. Runs that have already started keep their version.',
  deleteTransformationConfig: 'Runs that have already started still use the step.',
  startTransformationJob:
    'The plugin of the step defines the jobs. If the job is unknown, the error lists the jobs that exist.',
  listPlugins: 'Lists the plugins that a step of a transformation chain can use.',
  listPluginsOfProject:
    'The same list for keys of some projects of an organization. It leaves out the source of your own plugins.',
  installPlugin:
    'Sluice first checks and compiles the source in a sandbox. A plugin has no access to files or the network.',
  retrievePlugin:
    'Returns the plugin with its settings. For your own plugins, it includes the source.',
  listOrganizations: 'Organizations that are being deleted are left out. Follow `next` for more.',
  createOrganization:
    'It has no project and no key yet. Send an Idempotency-Key: if the answer is lost, you can repeat the request.',
  changeOrganization:
    'Disabling refuses its keys and pauses its exports; live runs finish. Enabling ends that: exports that a person paused stay paused.',
  listUsage:
    'A later commit of an interval replaces its rows and bytes. The files of deleted exports count as long as the service keeps their records.',
  listProjectsOfOrganization: 'Returns each project with its tenant key.',
  createProject:
    'The id of the project is the `team_id` of all that it owns. `tenant_key` is its value in the tenant column of the models; it cannot change. A value that no model can have is refused.',
  changeProject: 'Disabling refuses keys for the project and pauses its exports; live runs finish.',
  listKeys: 'Returns revoked and expired keys too. No answer shows a key again.',
  listOperatorKeys:
    "Returns the keys that belong to no organization. A customer's key never opens these paths.",
  revokeKey: 'From the next request on, the key is refused. It cannot be undone.',
  retrieveOperatorMe:
    'A key of a customer is refused. `GET /api/me` says the same of a key of a customer.',
  updatePlugin:
    'A new source makes a new version of each step that uses it. Runs that have already started keep their version.',
};

/** The documented parts of a route; a test finds operations without a description. */
function documented(tag: string, name: string, operationId: string, summary: string) {
  const description = descriptions[name];
  return { tags: [tag], operationId, summary, ...(description !== undefined && { description }) };
}

/** The number of requests that a preview, a test of a destination or a trial of a chain counts as. */
export const costOfTrial = 10;

/** The same exports are available under two paths: by organization and by project. */
export interface Family {
  readonly prefix: string;
  readonly tag: string;
  readonly params: TProperties;
  /** An operation id that is unique across both families. */
  operation(name: string): string;
  /** Default: those of the resource. */
  readonly scopes?: { readonly read: Scope; readonly write: Scope };
}

const current = '`@current` if the key has access to exactly one.';

export const organizationFamily: Family = {
  prefix: '/api/organizations/:organization_id',
  tag: 'Batch exports of an organization',
  params: { organization_id: Text(`The organization's id; ${current}`) },
  operation: (name) => `${name}OfOrganization`,
};

export const projectFamily: Family = {
  prefix: '/api/projects/:project_id',
  tag: 'Batch exports of a project',
  params: { project_id: Text(`The project's id; ${current}`) },
  operation: (name) => name,
};

/** Notification targets of the whole installation, with the keys of operators. */
export const installationFamily: Family = {
  prefix: '/api/admin',
  tag: 'Operators',
  params: {},
  operation: (name) => `${name}OfInstallation`,
  scopes: { read: 'operator:read', write: 'operator:write' },
};

/** The operations that the key of an operator may use on each export: its state, and no row, secret or file. Each look is recorded. */
const operatorReads: ReadonlySet<string> = new Set([
  ...['listActivity', 'listBackfills', 'listBatchExportLogs', 'listBatchExportRunLogs'],
  ...['listBatchExportRuns', 'listStatements', 'previewSchedule', 'retrieveBackfill'],
  ...['retrieveBatchExport', 'retrieveBatchExportRun', 'retrieveCoverage', 'retrieveErasure'],
  ...['retrieveStatement', 'retrieveStatementHead'],
]);

type Hook = (request: Request) => Promise<void>;

interface Resource<Id extends string> {
  readonly tag: string;
  readonly family: Family;
  readonly scopes: { readonly read: Scope; readonly write: Scope };
  /** Default: the name is unique. */
  readonly operation?: (name: string) => string;
  /** Path parameters after those of the family. */
  readonly ids: Readonly<Record<Id, TSchema>>;
  /** Loads what the first id names. */
  readonly load?: (id: Id) => Hook;
}

/** The common parts of the operations of a resource. `read` and `write` return the options of a route. */
function operationsOf<Id extends string>(resource: Resource<Id>) {
  const { tag, family, scopes, operation = (name: string) => name } = resource;
  const mayOperators = (name: string) => family === projectFamily && operatorReads.has(name);
  const access =
    (scope: Scope) =>
    <Parts extends object>(name: string, summary: string, ids: readonly Id[], parts: Parts) => {
      const [first] = ids;
      const load = first && resource.load?.(first);
      const own = Object.fromEntries(ids.map((id) => [id, resource.ids[id]])) as TProperties;
      return {
        config: { scope, ...(mayOperators(name) ? { operatorsMay: true as const } : {}) },
        ...(load ? { onRequest: load } : {}),
        schema: {
          ...documented(tag, name, operation(name), summary),
          params: Type.Object({ ...family.params, ...own }),
          ...parts,
        },
      };
    };
  return { read: access(scopes.read), write: access(scopes.write) };
}

const exportScopes = { read: 'batch_export:read', write: 'batch_export:write' } as const;
const uuid = (description: string) => Type.String({ format: 'uuid', description });

const exportIds = {
  id: uuid('Identifier of the record.'),
  batch_export_id: uuid('Identifier of the batch export.'),
  run_id: uuid('Identifier of the run.'),
  request: uuid('Identifier of the request to erase.'),
  number: Type.Integer({
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'Number of the statement.',
  }),
};

export function compressed<T extends { readonly config: object }>(operation: T) {
  return { ...operation, config: { ...operation.config, compresses: true as const } };
}

/** Operations on exports and their records; the first id of a path is the export's. */
export function exportOperations(family: Family) {
  const { tag, operation } = family;
  return operationsOf({
    ...{ tag, family, operation, scopes: exportScopes, ids: exportIds },
    load: loadBatchExport,
  });
}

const notificationIds = {
  id: uuid('Identifier of the notification target.'),
  delivery_id: uuid('Identifier of the delivery.'),
};

/** Operations on notification targets. They follow the exports, and so do the scopes. */
export function notificationOperations(family: Family, load: Hook) {
  const { operation, scopes = exportScopes } = family;
  return operationsOf({
    ...{ tag: 'Notifications', family, operation, scopes, ids: notificationIds },
    load: () => load,
  });
}

/** Operations on the parts of a transformation chain; their ids are integers. */
export function transformationOperations(tag: string, family: Family, id: string, load?: Hook) {
  return operationsOf({
    ...{ tag, family, scopes: { read: 'plugin:read', write: 'plugin:write' } as const },
    ids: { id: Int(`Identifier of the ${id}.`) },
    ...(load ? { load: () => load } : {}),
  });
}

export function keyOperation<Parts extends object>(id: string, summary: string, parts: Parts) {
  const schema = { ...documented('The API key', id, id, summary), ...parts };
  return { config: { scope: 'any' as const }, schema };
}

export function operatorOperation<Parts extends object>(
  scope: Scope,
  id: string,
  summary: string,
  parts: Parts,
) {
  return { config: { scope }, schema: { ...documented('Operators', id, id, summary), ...parts } };
}
