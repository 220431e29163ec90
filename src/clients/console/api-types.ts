/** The parts of the API's answers that the page shows. The build makes their types from the OpenAPI document. */

import type { AnswerOf, BodyOf, components } from '../../../dist/api-schema.d.ts';

type Schemas = components['schemas'];
export type Run = Schemas['BatchExportRun'];
/** The current files of a run. */
export type RunFiles = AnswerOf<'get', 'batch_exports/{batch_export_id}/runs/{id}/files'>;
export type RunStatus = Run['status'];
export type BatchExport = Schemas['BatchExport'];
/** An export in a list. */
export type ExportSummary = Schemas['BatchExportSummary'];
export type RunSummary = ExportSummary['latest_runs'][number];
/** The intervals that an unpause leaves out unless it asks for them. */
export type UnpausePreview = Schemas['UnpausePreview'];
export type Config = BatchExport['destination']['config'];
export type Coverage = Schemas['Coverage'];
export type Backfill = Schemas['Backfill'];
export type BackfillPreview = Schemas['BackfillPreview'];
/** The state of an export; each has one. */
export type Health = BatchExport['health'];
export type HealthCounts = Schemas['ExportHealthCounts'];
export type LogEntry = Schemas['BatchExportLog'];
export type LogLevel = LogEntry['level'];
export type RowPreview = Schemas['RowPreview'];
/** A change of an export: who, what and when. */
export type Activity = Schemas['Activity'];
/** One step of a destination's own test. */
export type CheckStep = Schemas['DestinationTest']['steps'][number];
/** A future data interval; `hours` is 23 or 25 on a day of a clock change. */
export type PlannedInterval = Schemas['SchedulePreview']['results'][number];
/** The rights of the key of the session. */
export type Me = Schemas['Me'];
/** A reason that keeps exports of all customers from their data. */
export type Cause = Schemas['Cause'];
/** A customer, and what was exported for it in a month. */
export type Usage = Schemas['Usage'];
export type Project = Schemas['Project'];
export type ApiKey = Schemas['ApiKey'];
export type OperatorExport = Schemas['OperatorExport'];
/** The choices that exports have in this installation. */
export type Capabilities = Schemas['Capabilities'];
/** The rows and bytes of one exported interval, and the time that its run took. */
export type Scope = Me['scopes'][number];
/** The project's chain, and which exports apply it. */
export type Chain = AnswerOf<'get', 'pipeline_transformation_configs'>;
/** A config of the project's transformation chain. */
export type Step = Schemas['PipelineTransformationConfig'];
export type Plugin = Schemas['Plugin'];
/** Who is notified of changes. */
export type NotificationTarget = Schemas['NotificationTarget'];
/** An event for one target. */
export type Delivery = Schemas['NotificationDelivery'];
export type PluginField = Plugin['config_schema'][number];
/** A row, and what each step did to it. */
export type Trial = NonNullable<RowPreview['trace']>[number];
export type TracedStep = Trial['steps'][number];
/** Rows of one step in one run. */
export type StepCount = NonNullable<Run['steps']>[number];
/** A problem that the API found; `attr` names the field, nested names joined by `__`. */
export type Problem = Pick<Schemas['Error']['errors'][number], 'detail' | 'attr'> & {
  readonly code: string;
};

export type BackfillRequest = BodyOf<'post', 'batch_exports/{id}/backfill'>;
/** The body of a request about a target. */
export type TargetBody = BodyOf<'post', 'notification_targets'>;
export type TargetEvent = NonNullable<TargetBody['events']>[number];
export type PreviewRequest = BodyOf<'post', 'batch_exports/preview'>;
export type NewStep = BodyOf<'post', 'pipeline_transformation_configs'>;
export type StepChange = BodyOf<'patch', 'pipeline_transformation_configs/{id}'>;

export type OffsetPage<T> = Omit<AnswerOf<'get', 'batch_exports'>, 'results'> & {
  readonly results: readonly T[];
};
export type CursorPage<T> = Omit<
  AnswerOf<'get', 'batch_exports/{batch_export_id}/runs'>,
  'results'
> & {
  readonly results: readonly T[];
};

const levels: Readonly<Record<LogLevel, true>> = {
  DEBUG: true,
  LOG: true,
  INFO: true,
  WARNING: true,
  ERROR: true,
};
/** The compiler reports a missing or unknown name. */
export const logLevels = Object.keys(levels) as LogLevel[];
/** A signed statement of an export, in a list. */
export type Statement = Schemas['Statement'];
/** The newest statement of an export. */
export type StatementHead = Schemas['StatementHead'];
