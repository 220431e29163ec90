import type { FastifyBaseLogger, FastifyPluginCallback } from 'fastify';
import type { Registry } from 'prom-client';
import type { BatchExport } from '../../foundation/domain/batch-export.ts';
import type { DestinationConfig, EventFilters } from '../../foundation/domain/file-settings.ts';
import type { Model } from '../../foundation/domain/model.ts';
import type { NotificationSender } from '../../foundation/domain/notification.ts';
import type { Column } from '../../foundation/domain/row-block.ts';
import type { DataInterval } from '../../foundation/domain/time.ts';
import type {
  DestinationContext,
  DestinationDefinition,
} from '../../rows/destinations/destination.ts';
import type { Comparison, DeliveredInterval } from '../use-cases/backfills/compare-rows.ts';
import type { Context } from '../use-cases/context.ts';
import type { ExportRules } from '../use-cases/exports/rules.ts';
import type { Readiness } from '../use-cases/installation/check-readiness.ts';
import type { StatementSources } from '../use-cases/statements/make-statement.ts';
import type { FindTenants } from '../use-cases/tenants/change-tenants.ts';
import type { PreviewRows } from '../use-cases/transformations/preview-rows.ts';
import type { ConnectionLimits } from './connections.ts';
import type { HeldLimits } from './hooks/limits.ts';
import type { PreviewSlots, TimeShare } from './insights/preview-slots.ts';

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

export interface DescribedRequest extends EventFilters {
  /** One of those that the export has. */
  readonly interval: DataInterval;
  readonly teamId: number;
  readonly model: string;
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

export interface ApiOptions {
  readonly context: Context;
  readonly destinations: readonly DestinationDefinition[];
  readonly destinationContext: DestinationContext;
  readonly formats: readonly {
    readonly format: string;
    readonly extension: string;
    readonly compressions: Readonly<Record<string, { readonly suffix: string } | undefined>>;
  }[];
  readonly privateEndpoints: boolean;
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
  readonly statements: StatementSources;
  readonly metrics: Registry;
  readonly logger: FastifyBaseLogger;
  /** The number of proxies that set X-Forwarded-* headers which are trusted; 0: none. */
  readonly trustProxy: number;
  readonly publicUrl: string | null;
  readonly failedKeysPerMinute: number;
  readonly held?: HeldLimits;
  readonly connections?: ConnectionLimits;
  /** The budget of the previews and trials of one organization; default: that of production. */
  readonly timeShare?: TimeShare;
  /** The bytes that changes of one organization may store per day, deleted or not. */
  readonly storedBytesPerDay: number;
  readonly rateLimit: { readonly perMinute: number; readonly perHour: number };
  readonly readiness: () => Promise<Readiness>;
  readonly notifications: NotificationSender;
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

export interface Deps extends Omit<ApiOptions, 'context'> {
  readonly rules: ExportRules;
  readonly previews: PreviewSlots;
  /** The one for tests of destinations, which also connect to a source. */
  readonly tests: PreviewSlots;
  readonly searches: PreviewSlots;
  readonly notificationTests: PreviewSlots;
  readonly trials: PreviewSlots;
  /** The one for what starts sandboxes: previews of such chains, and installing a plugin. */
  readonly sandboxes: PreviewSlots;
}
