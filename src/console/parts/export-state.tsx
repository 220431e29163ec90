import type { BatchExport } from '../api-types.ts';
import { describeLag, healthOf, intervalsBehind } from '../export-health.ts';
import { useNow } from '../now.ts';
import { plural } from '../numbers.ts';
import { TimeText } from './time-text.tsx';

interface Props {
  readonly batchExport: BatchExport;
}

/** One badge per problem: paused, failing. */
export function HealthBadges({ batchExport }: Props) {
  const now = useNow();
  const { paused, failure_streak: streak } = batchExport;
  const failing = healthOf(batchExport, now) === 'failing';
  return (
    <>
      {paused && <span className="badge is-paused">Paused</span>}
      {failing && (
        <span className="badge is-Failed">
          {streak > 1 ? `${plural(streak, 'consecutive failure')}` : 'Last run failed'}
        </span>
      )}
    </>
  );
}

export function NextRun({ batchExport: { next_run_at: at, paused } }: Props) {
  if (paused) return <span className="muted">when unpaused</span>;
  if (at === null) return <span className="muted">none</span>;
  return (
    <span>
      <TimeText at={at} as="relative" />{' '}
      <small className="muted">
        <TimeText at={at} />
      </small>
    </span>
  );
}

/** The high-water mark, and how far it is behind. */
export function Lag({ batchExport }: Props) {
  const now = useNow();
  const { high_water_mark: mark, unsettled_from: unsettled } = batchExport;
  if (mark === null) return <span className="muted">no interval yet</span>;
  const behind = intervalsBehind(batchExport, now) ?? 0;
  return (
    <span>
      <TimeText at={mark} />{' '}
      <small className={behind > 0 ? 'warn-text' : 'good-text'}>
        {describeLag(batchExport, now)}
      </small>
      {unsettled !== null && (
        <small className="warn-text">
          {' '}
          unsettled from <TimeText at={unsettled} />
        </small>
      )}
    </span>
  );
}
