import swagger from '@fastify/swagger';
import { Cause, OperatorExport, Task, TaskPreview } from '../admin/causes.ts';
import { Verification } from '../admin/verifications.ts';
import { ApiKey, IssuedApiKey, Organization, Project } from '../admin/schema.ts';
import { Me } from '../me/routes.ts';
import type { Api } from '../api.ts';
import { Backfill, BackfillPreview } from '../backfills/schema.ts';
import { BatchExport, UnpausePreview } from '../batch-exports/schema.ts';
import { ExportHealthCounts } from '../batch-exports/search.ts';
import { Capabilities } from '../capabilities/routes.ts';
import { AcceptedCoverage, Coverage } from '../coverage/schema.ts';
import { Activity, DestinationTest, RowPreview, SchedulePreview } from '../insights/schema.ts';
import { BatchExportLog } from '../logs/schema.ts';
import { LogTail } from '../logs/tail.ts';
import {
  CreatedNotificationTarget,
  NotificationDelivery,
  NotificationTarget,
  NotificationTest,
} from '../notifications/schema.ts';
import { webhooks } from '../notifications/webhooks.ts';
import { ProjectOverview } from '../projects/routes.ts';
import { RunFile } from '../runs/files.ts';
import { BatchExportRun } from '../runs/schema.ts';
import { ErrorBody } from '../schemas/error.ts';
import { DeliveryRecord } from '../delivery/schema.ts';
import { Throughput } from '../throughput/routes.ts';
import { LabResult } from '../transformations/lab.ts';
import { Plugin, RearrangedConfigs, TransformationConfig } from '../transformations/schema.ts';
import { documentForClients } from './client-document.ts';
import { serveDocs } from './docs-page.ts';
import { takesIdempotencyKey } from './idempotency.ts';
import { shareSerializers } from './serializers.ts';

/** Schemas that the document defines once, by name. */
const components = [
  ErrorBody,
  Me,
  Capabilities,
  BatchExportRun,
  RunFile,
  ExportHealthCounts,
  BatchExport,
  UnpausePreview,
  ProjectOverview,
  BatchExportLog,
  LogTail,
  Backfill,
  BackfillPreview,
  Coverage,
  AcceptedCoverage,
  DeliveryRecord,
  Throughput,
  SchedulePreview,
  DestinationTest,
  RowPreview,
  Activity,
  TransformationConfig,
  LabResult,
  RearrangedConfigs,
  Plugin,
  NotificationTarget,
  CreatedNotificationTarget,
  NotificationDelivery,
  NotificationTest,
  Organization,
  Project,
  ApiKey,
  IssuedApiKey,
  Cause,
  OperatorExport,
  Task,
  TaskPreview,
  Verification,
];

/** For the document alone: the hook reads the header by itself. */
const idempotencyHeader = {
  type: 'object',
  properties: {
    'Idempotency-Key': {
      type: 'string',
      pattern: '^[\\x21-\\x7e]{1,255}$',
      description:
        'Any text that is new for each change, such as a UUID. A request that is repeated with it within 24 hours takes effect once and gets the same answer.',
    },
  },
};

/** The OpenAPI 3.1 document at /api/openapi.json, and its pages at /api/docs. */
export async function describeApi(
  api: Api,
  shared: readonly object[],
  atOnce: boolean,
): Promise<void> {
  const schemas = [...components, ...shared];
  for (const schema of schemas) api.addSchema(schema);
  await shareSerializers(api, schemas, atOnce);
  await api.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Sluice',
        version: '0.1.0',
        description: 'Exports rows from PostgreSQL to S3 on a schedule: every row exactly once.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/' }],
      webhooks,
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'A personal API key.' },
        },
      },
    },
    transform: ({ schema, url, route }) => {
      const { scope } = route.config ?? {};
      const headers = takesIdempotencyKey(route) ? { headers: idempotencyHeader } : {};
      return {
        schema: scope
          ? { ...schema, ...headers, security: [{ apiKey: scope === 'any' ? [] : [scope] }] }
          : schema,
        url,
      };
    },
    transformObject: (documented) =>
      'openapiObject' in documented
        ? documentForClients(documented.openapiObject)
        : documented.swaggerObject,
    refResolver: {
      buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `def-${index}`),
    },
  });
  serveDocs(api);
}
