import type { FastifyBaseLogger, FastifyPluginCallback } from 'fastify';
import type { Registry } from 'prom-client';
import type {
  DestinationContext,
  DestinationDefinition,
} from '../../rows/destinations/destination.ts';
import type { BatchExport } from '../../foundation/domain/batch-export.ts';
import type { DestinationConfig, EventFilters } from '../../foundation/domain/file-settings.ts';
import type { Model } from '../../foundation/domain/model.ts';
import type { NotificationSender } from '../../foundation/domain/notification.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { DataInterval } from '../../foundation/domain/time.ts';
import type { Comparison, DeliveredInterval } from '../use-cases/backfills/compare-rows.ts';
import type { Context } from '../use-cases/context.ts';
import type { ExportRules } from '../use-cases/exports/rules.ts';
import type { Readiness } from '../use-cases/installation/check-readiness.ts';
import type { PreviewRows } from '../use-cases/transformations/preview-rows.ts';
import type { FindTenants } from '../use-cases/tenants/judge-tenant-key.ts';
import type { ConnectionLimits } from './connections.ts';
import type { HeldLimits } from './hooks/held-bytes.ts';
import type { PreviewSlots, TimeShare } from './insights/preview-slots.ts';
import type { StatementSources } from '../use-cases/statements/make-statement.ts';

/** The fields that decide which rows an export has. */
export interface ExportedRows
  extends Pick<BatchExport, 'teamId' | 'model' | 'mode' | 'dslQuery' | 'transformations'> {
  readonly destination: Pick<BatchExport['destination'], 'config'>;
}

/** The rows that the source has now for intervals of an export that a backfill would export. */
export type CompareRows = (
  asked: ExportedRows,
  intervals: readonly DeliveredInterval[],
  signal: AbortSignal,
) => Promise<Comparison>;

/** The request of an export to its source. */
export interface DescribedRequest extends EventFilters {
  /** One of those that the export has. */
  readonly interval: DataInterval;
  readonly teamId: number;
  readonly model: string;
  /** True: all rows of the project. */
  readonly whole: boolean;
  readonly dslQuery: string | null;
  /** `columns`: its rows go through a transformation chain. */
  readonly select: 'rows' | 'columns';
}

/** Columns with PostgreSQL's names of their types, and warnings for the owner of the export. */
export interface DescribedRows {
  readonly columns: readonly Pick<Column, 'name' | 'sourceType'>[];
  readonly warnings: readonly string[];
}

/**
 * A request's rows, as the source describes them without reading a row. Throws SluiceError.
 *
 * @param inSlot runs what needs a connection
 */
export type DescribeQuery = (
  request: DescribedRequest,
  inSlot: <T>(work: () => Promise<T>) => Promise<T>,
  signal: AbortSignal,
) => Promise<DescribedRows>;

/** An Iceberg table at the place that an export is to have. */
export interface FoundTablePlace {
  /** A version of it. */
  readonly key: string;
  /** The batch export whose table it is; null: another program's. */
  readonly owner: string | null;
  /** The table's folder, without a slash at its ends; `''`: the whole bucket. */
  readonly folder: string;
}

/** Looks for the table at the place of a new export's. Null: there is none. Throws SluiceError. */
export type FindTable = (
  place: {
    readonly teamId: number;
    readonly model: string;
    readonly type: string;
    /** Complete, with its secrets in plain text. */
    readonly config: DestinationConfig;
  },
  signal: AbortSignal,
) => Promise<FoundTablePlace | null>;

/** Everything that the API needs; the composition root provides it. */
export interface ApiOptions {
  readonly context: Context;
  readonly destinations: readonly DestinationDefinition[];
  readonly destinationContext: DestinationContext;
  /** Every file format, with its compressions by name. */
  readonly formats: readonly {
    readonly format: string;
    readonly extension: string;
    readonly compressions: Readonly<Record<string, { readonly suffix: string } | undefined>>;
  }[];
  /** True if some private addresses are allowed as endpoints. */
  readonly privateEndpoints: boolean;
  /** Every model that can be exported. */
  readonly models: readonly Model[];
  readonly checkQuery: ExportRules['checkQuery'];
  readonly applyFilters: ExportRules['applyFilters'];
  /** Throws SluiceError. */
  readonly previewRows: PreviewRows;
  readonly compareRows: CompareRows;
  /** Absent: queries are not checked on their source before a run. */
  readonly describeQuery?: DescribeQuery;
  /** Absent: the tenant key of a new project is not looked for in the models. */
  readonly findTenants?: FindTenants;
  /** Absent: a new export's place is not looked at before a run. */
  readonly findTable?: FindTable;
  /** The names of models and places in statements. */
  readonly statements: StatementSources;
  readonly metrics: Registry;
  readonly logger: FastifyBaseLogger;
  /** The number of proxies that set X-Forwarded-* headers which are trusted; 0: none. */
  readonly trustProxy: number;
  /** Where clients reach the service, for links; null: not configured. */
  readonly publicUrl: string | null;
  /** Failed authentications of one address per minute. */
  readonly failedKeysPerMinute: number;
  /** Limits of what clients make the process keep; default: those of production. */
  readonly held?: HeldLimits;
  readonly connections?: ConnectionLimits;
  /** The budget of the previews and trials of one organization; default: that of production. */
  readonly timeShare?: TimeShare;
  /** The bytes that changes of one organization may store per day, deleted or not. */
  readonly storedBytesPerDay: number;
  /** Requests of one key. */
  readonly rateLimit: { readonly perMinute: number; readonly perHour: number };
  /** True if the process can do its work. */
  readonly readiness: () => Promise<Readiness>;
  /** Sends the tests of notification targets. */
  readonly notifications: NotificationSender;
  /** The queue dashboard; null: none. */
  readonly queueBoard: FastifyPluginCallback | null;
  /**
   * Compiles all schemas before it is ready, and fails if one is not valid. Default: each at its first use, which
   * takes a few milliseconds then instead of a third of the start. A test compiles all.
   */
  readonly compilesAtOnce?: boolean;
  /** The folder that the operators' page was built into; null if it was not built. */
  readonly consoleDir: string | null;
  /** The folder that the OpenAPI document and its pages were built into; null if they were not built. */
  readonly docsDir: string | null;
}

/** The needs of the routes besides the context of each request. */
export interface Deps extends Omit<ApiOptions, 'context'> {
  readonly rules: ExportRules;
  /** Shared by both families of routes. */
  readonly previews: PreviewSlots;
  /** The one for tests of destinations, which also connect to a source. */
  readonly tests: PreviewSlots;
  /** For searches of logs. */
  readonly searches: PreviewSlots;
  /** For tests of notification targets. */
  readonly notificationTests: PreviewSlots;
  /** For chains that are tried on rows. */
  readonly trials: PreviewSlots;
  /** The one for what starts sandboxes: previews of such chains, and installing a plugin. */
  readonly sandboxes: PreviewSlots;
}
