import type { ExportSummary } from '../api-types.ts';
import { describeLag, describeMissing } from '../export-health.ts';
import { TimeText, useNow } from './time-text.tsx';
import { plural } from '../numbers.ts';
import { ElementOfRun } from './run-facts.tsx';

interface Props {
  readonly batchExport: ExportSummary;
}

/** The health that the service found, and what else is a fact: it is paused, failures in a row, intervals without data. */
export function HealthBadges({ batchExport }: Props) {
  const { paused, failure_streak: streak, health } = batchExport;
  // A person can pause an export that fails.
  const failing = health === 'failing' || streak > 0;
  return (
    <>
      {paused && <span className="badge is-paused">Paused</span>}
      {failing && (
        <span className="badge is-Failed">
          {streak > 1 ? `${streak} scheduled runs failed in a row` : 'Last run failed'}
        </span>
      )}
      {health === 'late' && <span className="badge is-paused">Late</span>}
      {batchExport.missing.count > 0 && <span className="badge is-Failed">Incomplete</span>}
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

/** The high-water mark, how far it is behind, and which intervals have no data. */
export function Lag({ batchExport }: Props) {
  const now = useNow();
  const { high_water_mark: mark, unsettled_from: unsettled, missing, health } = batchExport;
  const newest = batchExport.latest_runs.find(({ element }) => element !== null);
  const lag = describeLag(batchExport, now);
  const upToDate = lag === 'up to date';
  return (
    <span>
      {mark === null ? <NoMark batchExport={batchExport} /> : <TimeText at={mark} />}
      {newest && <ElementOfRun run={newest} />}
      {lag !== null && (
        <small className={upToDate ? 'good-text' : health === 'fine' ? 'muted' : 'warn-text'}>
          {' '}
          {lag}
        </small>
      )}
      {missing.since !== null && (
        <small className="warn-text">
          {' '}
          {describeMissing(batchExport)} since <TimeText at={missing.since} />
        </small>
      )}
      <Healing batchExport={batchExport} />
      {unsettled !== null && (
        <small className="warn-text">
          {' '}
          unsettled from <TimeText at={unsettled} />
        </small>
      )}
    </span>
  );
}

function Healing({ batchExport: { healing, paused, paused_reason: reason } }: Props) {
  if (healing === null) return null;
  const { intervals, next_probe_at: probe, turn } = healing;
  if (paused && reason === null) {
    return <small className="warn-text"> healing waits until the export is unpaused</small>;
  }
  return (
    <small className="warn-text">
      {' '}
      healing {plural(intervals, 'interval')}
      {probe === null ? ' now' : ', next probe '}
      {probe !== null && <TimeText at={probe} as="relative" />}
      {turn !== null && ` (${turnNames[turn]})`}
    </small>
  );
}

const turnNames = {
  ours: 'the operator of Sluice can end this',
  source: 'the owner of the source can end this',
  customer: 'the owner of the destination can end this',
} as const;

/** A backfill moves no high-water mark before the first scheduled interval. */
function NoMark({ batchExport: { last_success_at: success } }: Props) {
  return (
    <span className="muted">
      {success === null ? 'no interval yet' : 'no scheduled interval yet, only backfills'}
    </span>
  );
}
