import type { ActedOnExport, Cause, OperatorExport, OffsetPage, OperatorMe } from '../api-types.ts';
import type { Call } from '../api-call.ts';
import { ApiFailure, senderOf } from '../api-call.ts';
import { createTargetsClient } from '../targets-client.ts';

export const causesPageSize = 50;
export const causeExportsPageSize = 50;

export interface CauseFilter {
  readonly search: string;
  readonly turn: Cause['turn'] | null;
  readonly offset: number;
}

export type OperatorAction = 'probe' | 'retry' | 'pause';

/**
 * The API of operators, with an operator's key. All methods throw ApiFailure.
 *
 * @param onRefused called if the key is no longer accepted
 */
export function createOperatorClient(key: string, onRefused: () => void) {
  const call = senderOf(key, onRefused);
  const send = <T>(path: string, options?: Call) => call<T>(`/api/admin${path}`, options);
  return {
    getMe: (signal: AbortSignal) => send<OperatorMe>('/me', { signal }),
    listCauses: ({ search, turn, offset }: CauseFilter, signal: AbortSignal) =>
      send<OffsetPage<Cause>>('/causes', {
        query: { search, turn, limit: causesPageSize, offset },
        signal,
      }),
    /** Every export of a cause. */
    async readExports(causeId: string): Promise<readonly OperatorExport[]> {
      const exports = new Map<string, OperatorExport>();
      for (let offset = 0; ; ) {
        const page = await send<OffsetPage<OperatorExport>>('/exports', {
          query: { cause_id: causeId, limit: 1_000, offset },
        });
        for (const one of page.results) exports.set(one.id, one);
        offset += page.results.length;
        if (page.next === null || page.results.length === 0) return [...exports.values()];
      }
    },
    /** Returns false if there was nothing to do, or the export is gone. */
    async act(exportId: string, action: OperatorAction): Promise<boolean> {
      const path = `/exports/${exportId}/act`;
      try {
        const acted = await send<ActedOnExport>(path, { method: 'POST', body: { action } });
        return acted.passed_over === null;
      } catch (error) {
        if (error instanceof ApiFailure && error.status === 404) return false;
        throw error;
      }
    },
    listExports: (causeId: string, offset: number, signal: AbortSignal) =>
      send<OffsetPage<OperatorExport>>('/exports', {
        query: { cause_id: causeId, limit: causeExportsPageSize, offset },
        signal,
      }),
    targets: createTargetsClient(<T>(path: string, call?: Call) =>
      send<T>(`/notification_targets${path}`, call),
    ),
  };
}

export type OperatorClient = ReturnType<typeof createOperatorClient>;
