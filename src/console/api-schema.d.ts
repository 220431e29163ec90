/** Written by `npm run api-types` from the OpenAPI document. Do not edit. */


export interface paths {
  "/api/projects/{project_id}/batch_exports": {
    get: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly count: number;
              readonly next: string | null;
              readonly previous: string | null;
              readonly results: readonly components["schemas"]["BatchExport"][];
            };
          };
        };
      };
    };
    post: {
      responses: { 201: { content: { readonly "application/json": components["schemas"]["BatchExport"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}": {
    get: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExport"]; } } };
    };
    put: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExport"]; } } };
    };
    delete: {
      responses: {
        204: {
          content: never;
        };
      };
    };
    patch: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExport"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/pause": {
    post: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExport"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/unpause": {
    post: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExport"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/backfill": {
    post: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExport"] | components["schemas"]["BackfillPreview"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/backfills": {
    get: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly next: string | null;
              readonly previous: string | null;
              readonly results: readonly components["schemas"]["Backfill"][];
            };
          };
        };
      };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/backfills/{id}": {
    get: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["Backfill"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/backfills/{id}/cancel": {
    post: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["Backfill"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/schedule": {
    get: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["SchedulePreview"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/test": {
    post: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["DestinationTest"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/preview": {
    get: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["RowPreview"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{id}/activity": {
    get: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly count: number;
              readonly next: string | null;
              readonly previous: string | null;
              readonly results: readonly components["schemas"]["Activity"][];
            };
          };
        };
      };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/runs": {
    get: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly next: string | null;
              readonly previous: string | null;
              readonly results: readonly components["schemas"]["BatchExportRun"][];
            };
          };
        };
      };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/runs/{id}": {
    get: {
      responses: { 200: { content: { readonly "application/json": components["schemas"]["BatchExportRun"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/runs/{id}/cancel": {
    post: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly cancelled: true;
            };
          };
        };
      };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/runs/{id}/retry": {
    post: {
      responses: { 201: { content: { readonly "application/json": components["schemas"]["BatchExportRun"]; } } };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/logs": {
    get: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly count: number;
              readonly next: string | null;
              readonly previous: string | null;
              readonly results: readonly components["schemas"]["BatchExportLog"][];
            };
          };
        };
      };
    };
  };
  "/api/projects/{project_id}/batch_exports/{batch_export_id}/runs/{run_id}/logs": {
    get: {
      responses: {
        200: {
          content: {
            readonly "application/json": {
              readonly count: number;
              readonly next: string | null;
              readonly previous: string | null;
              readonly results: readonly components["schemas"]["BatchExportLog"][];
            };
          };
        };
      };
    };
  };
}

export type webhooks = Record<string, never>;

export interface components {
  schemas: {
    readonly Error: {
      readonly type: "validation_error" | "invalid_request" | "authentication_error" | "throttled_error" | "server_error";
      readonly code: "required" | "null" | "blank" | "invalid_choice" | "invalid_input" | "does_not_exist" | "incorrect_type" | "max_length" | "min_value" | "max_value" | "parse_error" | "not_authenticated" | "authentication_failed" | "permission_denied" | "not_found" | "method_not_allowed" | "unsupported_media_type" | "payload_too_large" | "conflict" | "throttled" | "error";
      readonly detail: string;
      readonly attr: string | null;
      readonly errors: readonly ({
          readonly type: "validation_error" | "invalid_request" | "authentication_error" | "throttled_error" | "server_error";
          readonly code: "required" | "null" | "blank" | "invalid_choice" | "invalid_input" | "does_not_exist" | "incorrect_type" | "max_length" | "min_value" | "max_value" | "parse_error" | "not_authenticated" | "authentication_failed" | "permission_denied" | "not_found" | "method_not_allowed" | "unsupported_media_type" | "payload_too_large" | "conflict" | "throttled" | "error";
          readonly detail: string;
          readonly attr: string | null;
        })[];
      readonly request_id: string;
    };
    readonly BatchExportRun: {
      readonly id: string;
      readonly status: "Starting" | "Running" | "Completed" | "Failed" | "FailedRetryable" | "Cancelled";
      readonly records_completed: number | null;
      readonly latest_error: string | null;
      readonly data_interval_start: string | null;
      readonly data_interval_end: string;
      readonly cursor: string | null;
      readonly created_at: string;
      readonly started_at: string | null;
      readonly finished_at: string | null;
      readonly last_updated_at: string;
      readonly records_total_count: number | null;
      readonly batch_export: string;
      readonly attempt: number;
      readonly bytes_exported: number;
      readonly files: number;
      readonly records_dropped: number;
      readonly records_rejected: number;
      readonly backfill_id: string | null;
      readonly settled: boolean | null;
    };
    readonly BatchExport: {
      readonly id: string;
      readonly team_id: number;
      readonly name: string;
      readonly destination: {
        readonly type: string;
        readonly config: {
          [key: string]: unknown;
        };
      };
      readonly interval: string;
      readonly paused: boolean;
      readonly created_at: string;
      readonly last_updated_at: string;
      readonly last_paused_at: string | null;
      readonly start_at: string | null;
      readonly end_at: string | null;
      readonly latest_runs: readonly components["schemas"]["BatchExportRun"][];
      readonly dsl_query: string | null;
      readonly schema: unknown;
      readonly model: string;
      readonly timezone: string;
      readonly offset_day: number | null;
      readonly offset_hour: number | null;
      readonly transformations: boolean;
      readonly paused_reason: string | null;
      readonly next_run_at: string | null;
      readonly high_water_mark: string | null;
      readonly unsettled_from: string | null;
      readonly failure_streak: number;
      readonly last_success_at: string | null;
      readonly backfill_id?: string;
      readonly backfill_start_at?: string;
      readonly backfill_end_at?: string;
    };
    readonly BatchExportLog: {
      readonly team_id: number;
      readonly batch_export_id: string;
      readonly run_id: string | null;
      readonly timestamp: string;
      readonly level: "DEBUG" | "LOG" | "INFO" | "WARNING" | "ERROR";
      readonly message: string;
    };
    readonly Backfill: {
      readonly id: string;
      readonly batch_export: string;
      readonly team_id: number;
      readonly status: "Running" | "Completed" | "Cancelled";
      readonly start_at: string;
      readonly end_at: string;
      readonly order: "oldest_first" | "newest_first";
      readonly reprocess: "all" | "failed" | "none";
      readonly concurrency: number;
      readonly total_runs: number;
      readonly finished_runs: number;
      readonly failed_runs: number;
      readonly progress: number;
      readonly eta: string | null;
      readonly created_at: string;
      readonly finished_at: string | null;
      readonly last_updated_at: string;
    };
    readonly BackfillPreview: {
      readonly dry_run: true;
      readonly start_at: string;
      readonly end_at: string;
      readonly total_runs: number;
      readonly intervals: readonly {
          readonly start: string;
          readonly end: string;
        }[];
      readonly already_completed: readonly {
          readonly start: string;
          readonly end: string;
        }[];
      readonly estimated_rows: number | null;
    };
    readonly SchedulePreview: {
      readonly results: readonly ({
          readonly data_interval_start: string;
          readonly data_interval_end: string;
          readonly local_start: string;
          readonly local_end: string;
          readonly timezone: string;
          readonly hours: number;
          readonly fate: "ran" | "paused" | "outside_window";
        })[];
    };
    readonly DestinationTest: {
      readonly passed: boolean;
      readonly steps: readonly ({
          readonly step: string;
          readonly passed: boolean;
          readonly error: string | null;
          readonly warning: string | null;
        })[];
    };
    readonly RowPreview: {
      readonly columns: readonly {
          readonly name: string;
          readonly type: string;
        }[];
      readonly rows: readonly (readonly unknown[])[];
    };
    readonly Activity: {
      readonly id: number;
      readonly action: string;
      readonly key_id: string | null;
      readonly key_name: string | null;
      readonly changes: readonly {
          readonly field: string;
          readonly before: unknown;
          readonly after: unknown;
        }[];
      readonly happened_at: string;
    };
  };
  responses: never;
  parameters: never;
  requestBodies: never;
  headers: never;
  pathItems: never;
}

export type $defs = Record<string, never>;

export type external = Record<string, never>;

export type operations = Record<string, never>;
