import type { components, paths } from '../../../../dist/api-schema.d.ts';

/** Types of the API, from the OpenAPI document that the build writes. */

export type { AnswerOf, Method, PathOf, QueryOf } from '../../../../dist/api-schema.d.ts';

type Schemas = components['schemas'];
export type NotificationTarget = Schemas['NotificationTarget'];
export type NotificationDelivery = Schemas['NotificationDelivery'];
export type Cause = Schemas['Cause'];
export type OperatorExport = Schemas['OperatorExport'];
export type BatchExport = Schemas['BatchExport'];
export type ExportSummary = Schemas['BatchExportSummary'];
export type Health = BatchExport['health'];
export type Run = Schemas['BatchExportRun'];
export type Backfill = Schemas['Backfill'];
export type LogEntry = Schemas['BatchExportLog'];
export type DestinationTest = Schemas['DestinationTest'];
export type Plugin = Schemas['Plugin'];
export type Readiness = paths['/readyz']['get']['responses'][200]['content']['application/json'];
