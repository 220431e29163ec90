import { type Call, callApi, senderOf } from './api-call.ts';
import type {
  Activity,
  Backfill,
  BackfillPreview,
  BackfillRequest,
  BatchExport,
  Capabilities,
  Chain,
  CheckStep,
  Config,
  Coverage,
  CoverageGaps,
  CursorPage,
  DeliveryRecord,
  Health,
  HealthCounts,
  IntervalThroughput,
  LogEntry,
  LogLevel,
  LogTail,
  Me,
  NewStep,
  OffsetPage,
  PlannedInterval,
  Plugin,
  ProjectOverview,
  PreviewRequest,
  RowPreview,
  Run,
  RunFiles,
  Step,
  StepChange,
  UnpausePreview,
} from './api-types.ts';
import type { RunFilter } from './run-state.ts';
import { createTargetsClient } from './targets-client.ts';

/** The cursor in a link to another page. */
export function cursorOf(link: string | null): string | null {
  return link === null ? null : new URL(link).searchParams.get('cursor');
}

/** The first page of an offset list, with the results of all its pages. */
async function wholeList<Page extends OffsetPage<unknown>>(
  readPage: (query: { readonly limit: number; readonly offset: number }) => Promise<Page>,
): Promise<Page> {
  const first = await readPage({ limit: 1_000, offset: 0 });
  const results = [...first.results];
  for (let { next } = first; next !== null; ) {
    const page = await readPage({ limit: 1_000, offset: results.length });
    results.push(...page.results);
    next = page.next;
  }
  return { ...first, next: null, results };
}

export interface ExportFilter {
  readonly healths: readonly Health[];
  readonly search: string;
  readonly ordering: string;
  readonly offset: number;
}

export interface RunListFilter {
  readonly statuses: readonly RunFilter[];
  readonly cursor: string | null;
}

export interface LogFilter {
  readonly runId: string | null;
  readonly levels: readonly LogLevel[];
  readonly search: string;
  readonly offset: number;
}

export interface UnpauseRequest {
  /** Export the intervals that were missed in the pause. */
  readonly backfill: boolean;
  /** Export the requested intervals that have no data. */
  readonly retry_missing: boolean;
}

export interface AcceptRequest {
  readonly from: string;
  readonly to: string;
  /** Empty: none. */
  readonly reason: string;
}

export interface ExportInput {
  readonly name: string;
  readonly destination: { readonly type?: string; readonly config: Config };
  readonly interval: string;
  readonly [field: string]: unknown;
}

export const exportsPageSize = 50;
export const projectsPageSize = 50;
export const changesPageSize = 20;
export const logPageSize = 200;
export const filesPageSize = 50;
const runPageSize = 30;
const dayMs = 86_400_000;

/**
 * The API of one project, with one key. All methods throw ApiFailure.
 *
 * @param onRefused called if the key is no longer accepted
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a list of calls
export function createClient(key: string, project: string, onRefused: () => void) {
  const base = `/api/projects/${encodeURIComponent(project)}`;
  const send = senderOf(key, onRefused);
  const call = <T>(path: string, options?: Call) =>
    send<T>(`${base}/batch_exports${path}`, options);
  const callChain = <T>(path: string, options?: Call) =>
    send<T>(`${base}/pipeline_transformation_configs${path}`, options);
  const callTargets = <T>(path: string, options?: Call) =>
    send<T>(`${base}/notification_targets${path}`, options);
  const targetsOfAll = createTargetsClient(<T>(path: string, options?: Call) =>
    send<T>(`/api/organizations/@current/notification_targets${path}`, options),
  );
  const post = <T>(path: string, body: unknown = {}) => call<T>(path, { method: 'POST', body });
  return {
    describe: (signal: AbortSignal) => callApi<object>(key, '/api/openapi.json', { signal }),
    getCapabilities: (signal: AbortSignal) => send<Capabilities>('/api/capabilities', { signal }),
    listExports: (
      { healths: health, search, ordering, offset }: ExportFilter,
      signal: AbortSignal,
    ) =>
      call<OffsetPage<BatchExport>>('', {
        query: { health, search, ordering, limit: exportsPageSize, offset },
        signal,
      }),
    countExports: (signal: AbortSignal) => call<HealthCounts>('/health', { signal }),
    /** Counts the whole organization; only for a key that has access to it. */
    countAllExports: (signal: AbortSignal) =>
      send<HealthCounts>('/api/organizations/@current/batch_exports/health', { signal }),
    listProjects: (
      { search, ordering, offset }: Omit<ExportFilter, 'healths'>,
      signal: AbortSignal,
    ) =>
      send<OffsetPage<ProjectOverview>>('/api/organizations/@current/projects', {
        query: { search, ordering, limit: projectsPageSize, offset },
        signal,
      }),
    getExport: (id: string, signal?: AbortSignal) =>
      call<BatchExport>(`/${id}`, signal ? { signal } : {}),
    createExport: (body: ExportInput) => post<BatchExport>('', body),
    updateExport: (id: string, body: ExportInput) =>
      call<BatchExport>(`/${id}`, { method: 'PATCH', body }),
    deleteExport: (id: string) => call<null>(`/${id}`, { method: 'DELETE' }),
    pause: (id: string) => post<BatchExport>(`/${id}/pause`),
    previewUnpause: (id: string, signal: AbortSignal) =>
      call<UnpausePreview>(`/${id}/unpause`, { method: 'POST', body: { dry_run: true }, signal }),
    unpause: (id: string, wanted: UnpauseRequest) => post<BatchExport>(`/${id}/unpause`, wanted),
    listRuns: (id: string, { statuses, cursor }: RunListFilter, signal: AbortSignal) =>
      call<CursorPage<Run>>(`/${id}/runs`, {
        query: { status: statuses, cursor, limit: runPageSize },
        signal,
      }),
    getRun: (id: string, runId: string, signal: AbortSignal) =>
      call<Run>(`/${id}/runs/${runId}`, { signal }),
    listFiles: (id: string, runId: string, offset: number, signal: AbortSignal) =>
      call<RunFiles>(`/${id}/runs/${runId}/files`, {
        query: { limit: filesPageSize, offset },
        signal,
      }),
    cancelRun: (id: string, runId: string) => post<object>(`/${id}/runs/${runId}/cancel`),
    retryRun: (id: string, runId: string, missingRows?: Backfill['missing_rows']) =>
      post<Run>(`/${id}/runs/${runId}/retry`, missingRows && { missing_rows: missingRows }),
    /** The blocker alone: the coverage of a single day. */
    findBlocker: (id: string, nowMs: number, signal: AbortSignal) =>
      call<Coverage>(`/${id}/coverage`, {
        query: { from: new Date(nowMs - dayMs).toISOString() },
        signal,
      }),
    /** @param bounds milliseconds */
    getCoverage: (id: string, bounds: { start: number; end: number }, signal: AbortSignal) =>
      call<Coverage>(`/${id}/coverage`, {
        query: {
          from: new Date(bounds.start).toISOString(),
          to: new Date(bounds.end).toISOString(),
        },
        signal,
      }),
    listGaps: (id: string, signal: AbortSignal) =>
      call<CoverageGaps>(`/${id}/coverage/gaps`, { signal }),
    acceptCoverage: (id: string, { from, to, reason }: AcceptRequest) =>
      post<{ readonly accepted: number }>(`/${id}/coverage/accept`, {
        from,
        to,
        reason: reason.trim() === '' ? null : reason,
      }),
    listLogs: (
      id: string,
      { runId, levels: level, search, offset }: LogFilter,
      signal: AbortSignal,
    ) =>
      call<OffsetPage<LogEntry>>(runId === null ? `/${id}/logs` : `/${id}/runs/${runId}/logs`, {
        query: { level, search, limit: logPageSize, offset },
        signal,
      }),
    /** What is new in the log of a run. */
    tailLogs: (id: string, runId: string, cursor: string | null, signal: AbortSignal) =>
      call<LogTail>(`/${id}/runs/${runId}/logs/tail`, {
        query: { cursor, limit: logPageSize },
        signal,
      }),
    listBackfills: (id: string, cursor: string | null, signal: AbortSignal) =>
      call<CursorPage<Backfill>>(`/${id}/backfills`, { query: { cursor, limit: 20 }, signal }),
    previewBackfill: (id: string, body: BackfillRequest) =>
      post<BackfillPreview>(`/${id}/backfill`, { ...body, dry_run: true }),
    startBackfill: (id: string, body: BackfillRequest) =>
      post<BatchExport>(`/${id}/backfill`, body),
    cancelBackfill: (id: string, backfillId: string, running: 'finish' | 'cancel') =>
      post<Backfill>(`/${id}/backfills/${backfillId}/cancel`, { running }),
    testDestination: (id: string) => post<{ steps: readonly CheckStep[] }>(`/${id}/test`),
    getSchedule: (id: string, signal: AbortSignal) =>
      call<{ results: readonly PlannedInterval[] }>(`/${id}/schedule`, { signal }),
    /** @param id of the export that the body would change; null: a new one */
    testUnsaved: (id: string | null, body: object) =>
      post<{ steps: readonly CheckStep[] }>(id === null ? '/test' : `/${id}/test`, body),
    previewRows: (body: PreviewRequest) => post<RowPreview>('/preview', body),
    /** @param before ISO 8601; null: up to the newest */
    getThroughput: (id: string, before: string | null, limit: number, signal: AbortSignal) =>
      call<{ results: readonly IntervalThroughput[] }>(`/${id}/throughput`, {
        query: { before, limit },
        signal,
      }),
    getDelivery: (id: string, window: string, signal: AbortSignal) =>
      call<DeliveryRecord>(`/${id}/delivery`, { query: { window }, signal }),
    getDeliveryCsv: (id: string, window: string) =>
      call<string>(`/${id}/delivery`, { query: { window, format: 'csv' } }),
    listActivity: (id: string, offset: number, signal: AbortSignal) =>
      call<OffsetPage<Activity>>(`/${id}/activity`, {
        query: { limit: changesPageSize, offset },
        signal,
      }),
    getMe: (signal: AbortSignal) => send<Me>('/api/me', { signal }),
    targets: createTargetsClient(callTargets),
    /** Those of the project and those of all projects, for a key that has access to the organization. It has at most 20. */
    organizationTargets: {
      ...targetsOfAll,
      list: async (signal: AbortSignal) => {
        const page = await targetsOfAll.list(signal);
        const isHere = (team: number | null) => team === null || String(team) === project;
        const results = page.results.filter(({ team_id: team }) => isHere(team));
        return { ...page, count: results.length, results };
      },
    },
    listPlugins: (signal: AbortSignal) =>
      wholeList((query) => send<OffsetPage<Plugin>>(`${base}/plugins`, { query, signal })),
    listSteps: (signal: AbortSignal) =>
      wholeList((query) => callChain<Chain>('', { query, signal })),
    getStep: (id: number, signal: AbortSignal) => callChain<Step>(`/${id}`, { signal }),
    createStep: (body: NewStep) => callChain<Step>('', { method: 'POST', body }),
    changeStep: (id: number, body: StepChange) =>
      callChain<Step>(`/${id}`, { method: 'PATCH', body }),
    deleteStep: (id: number) => callChain<null>(`/${id}`, { method: 'DELETE' }),
    rearrangeSteps: (orders: Readonly<Record<string, number>>) =>
      callChain<object>('/rearrange', { method: 'PATCH', body: { orders } }),
  };
}

export type Client = ReturnType<typeof createClient>;
