/** The parts of the API's answers that the page shows. The build makes their types from the OpenAPI document. */

import type { AnswerOf, BodyOf, components } from '../../../dist/api-schema.d.ts';

type Schemas = components['schemas'];
export type Run = Schemas['BatchExportRun'];
export type RunFiles = AnswerOf<'get', 'batch_exports/{batch_export_id}/runs/{id}/files'>;
export type RunStatus = Run['status'];
export type BatchExport = Schemas['BatchExport'];
export type ExportSummary = Schemas['BatchExportSummary'];
export type RunSummary = ExportSummary['latest_runs'][number];
/** The intervals that an unpause leaves out unless it asks for them. */
export type UnpausePreview = Schemas['UnpausePreview'];
export type Config = BatchExport['destination']['config'];
export type Coverage = Schemas['Coverage'];
export type Backfill = Schemas['Backfill'];
export type BackfillPreview = Schemas['BackfillPreview'];
export type Health = BatchExport['health'];
export type HealthCounts = Schemas['ExportHealthCounts'];
export type LogEntry = Schemas['BatchExportLog'];
export type LogLevel = LogEntry['level'];
export type RowPreview = Schemas['RowPreview'];
export type Activity = Schemas['Activity'];
export type CheckStep = Schemas['DestinationTest']['steps'][number];
/** A future data interval; `hours` is 23 or 25 on a day of a clock change. */
export type PlannedInterval = Schemas['SchedulePreview']['results'][number];
export type Me = Schemas['Me'];
/** A reason that keeps exports of all customers from their data. */
export type Cause = Schemas['Cause'];
/** A customer, and what was exported for it in a month. */
export type Usage = Schemas['Usage'];
export type Project = Schemas['Project'];
export type ApiKey = Schemas['ApiKey'];
export type OperatorExport = Schemas['OperatorExport'];
export type Capabilities = Schemas['Capabilities'];
export type Scope = Me['scopes'][number];
export type Chain = AnswerOf<'get', 'pipeline_transformation_configs'>;
export type Step = Schemas['PipelineTransformationConfig'];
export type Plugin = Schemas['Plugin'];
export type NotificationTarget = Schemas['NotificationTarget'];
export type Delivery = Schemas['NotificationDelivery'];
export type PluginField = Plugin['config_schema'][number];
export type Trial = NonNullable<RowPreview['trace']>[number];
export type TracedStep = Trial['steps'][number];
export type StepCount = NonNullable<Run['steps']>[number];
/** A problem that the API found; `attr` names the field, nested names joined by `__`. */
export type Problem = Pick<Schemas['Error']['errors'][number], 'detail' | 'attr'> & {
  readonly code: string;
};

export type BackfillRequest = BodyOf<'post', 'batch_exports/{id}/backfill'>;
export type TargetBody = BodyOf<'post', 'notification_targets'>;
export type TargetEvent = NonNullable<TargetBody['events']>[number];
export type PreviewRequest = BodyOf<'post', 'batch_exports/preview'>;

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
export type Statement = Schemas['Statement'];
export type StatementHead = Schemas['StatementHead'];
