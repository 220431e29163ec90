import { cancelBackfill, cancelRun, startBackfill } from '../api.ts';
import type { Backfill, Run } from '../api-types.ts';
import { useAction, useConsole, useSay } from '../use-api.ts';
import { plural } from '../numbers.ts';
import { ActButton } from './buttons.tsx';

/** The intervals that are exported again: the one of a run, or those of a range. */
export type Again =
  | { readonly run: Pick<Run, 'id'> }
  | {
      readonly start: string;
      readonly end: string;
      readonly intervals: number;
      readonly reprocess: Backfill['reprocess'];
    };

interface Props {
  readonly exportId: string;
  readonly again: Again;
  readonly className?: string;
}

/** For failed, missing or finished intervals. It starts at once, and the message that says so can cancel it. */
export function ExportAgainButton({ exportId, again, className }: Props) {
  const { api, may } = useConsole();
  const say = useSay();
  const begin = useAction(async () => {
    if ('run' in again) {
      const { id } = await api.post('batch_exports/{batch_export_id}/runs/{id}/retry', {
        batch_export_id: exportId,
        id: again.run.id,
      });
      say('The interval is exported again.', () => cancelRun(api, exportId, id));
    } else {
      const { start, end, reprocess } = again;
      const range = { start_at: start, end_at: end, order: 'oldest_first' as const, reprocess };
      const { backfill_id: id, backfill_total_runs: runs = 0 } = await startBackfill(
        api,
        exportId,
        range,
      );
      if (runs === 0) return 'There is nothing to export: these intervals have data or a live run.';
      say(
        `${runs === 1 ? '1 interval is' : `${plural(runs, 'interval')} are`} exported again.`,
        () => cancelBackfill(api, exportId, id ?? '', 'cancel'),
      );
    }
  });
  if (!may('batch_export:write')) return null;
  const many =
    'run' in again || again.intervals === 1 ? '' : `${plural(again.intervals, 'interval')} `;
  return (
    <ActButton act={begin} className={className}>
      Export {many}again
    </ActButton>
  );
}
