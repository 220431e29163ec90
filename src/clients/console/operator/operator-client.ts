import type {
  Cause,
  OperatorExport,
  OperatorTask,
  OperatorTaskPreview,
  OffsetPage,
  OperatorMe,
} from '../api-types.ts';
import type { Call } from '../api-call.ts';
import { senderOf } from '../api-call.ts';
import { createTargetsClient } from '../targets-client.ts';

export const causesPageSize = 50;
export const causeExportsPageSize = 50;

export interface CauseFilter {
  readonly search: string;
  readonly turn: Cause['turn'] | null;
  readonly offset: number;
}

export type TaskAction = OperatorTask['action'];

/**
 * The API of operators, with an operator's key. All methods throw ApiFailure.
 *
 * @param onRefused called if the key is no longer accepted
 */
export function createOperatorClient(key: string, onRefused: () => void) {
  const call = senderOf(key, onRefused);
  const send = <T>(path: string, options?: Call) => call<T>(`/api/admin${path}`, options);
  const begin = <T>(causeId: string, body: object) =>
    send<T>(`/causes/${causeId}/tasks`, { method: 'POST', body });
  return {
    getMe: (signal: AbortSignal) => send<OperatorMe>('/me', { signal }),
    listCauses: ({ search, turn, offset }: CauseFilter, signal: AbortSignal) =>
      send<OffsetPage<Cause>>('/causes', {
        query: { search, turn, limit: causesPageSize, offset },
        signal,
      }),
    listExports: (causeId: string, offset: number, signal: AbortSignal) =>
      send<OffsetPage<OperatorExport>>('/exports', {
        query: { cause_id: causeId, limit: causeExportsPageSize, offset },
        signal,
      }),
    previewTask: (causeId: string, action: TaskAction) =>
      begin<OperatorTaskPreview>(causeId, { action, dry_run: true }),
    startTask: (causeId: string, action: TaskAction) => begin<OperatorTask>(causeId, { action }),
    listTasks: (signal: AbortSignal) =>
      send<OffsetPage<OperatorTask>>('/tasks', { query: { limit: 10 }, signal }),
    cancelTask: (id: string) =>
      send<OperatorTask>(`/tasks/${id}/cancel`, { method: 'POST', body: {} }),
    targets: createTargetsClient(<T>(path: string, call?: Call) =>
      send<T>(`/notification_targets${path}`, call),
    ),
  };
}

export type OperatorClient = ReturnType<typeof createOperatorClient>;
