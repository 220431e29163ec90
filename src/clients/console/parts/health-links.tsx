import type { Health, HealthCounts } from '../api-types.ts';
import { healths } from '../export-health.ts';
import { formatCount } from '../numbers.ts';

interface Props {
  readonly counts: HealthCounts;
  readonly chosen: readonly Health[];
  /** The address of the exports of a health; null: of all. */
  readonly to: (health: Health | null) => string;
}

/** `3 failing · 2 late · 493 fine`, each a link to these exports. None: nothing to say about them. */
export function HealthLinks({ counts, chosen, to }: Props) {
  const shown = healths.filter(
    (health) => counts[health] > 0 || chosen.includes(health) || health === 'fine',
  );
  return (
    <ul className="row health" aria-label="Exports by health">
      {shown.map((health) => (
        <li key={health}>
          <a
            className={`health-${health}`}
            href={to(health)}
            aria-current={chosen.includes(health) ? 'true' : undefined}
          >
            {formatCount(counts[health])} {health}
          </a>
        </li>
      ))}
      {chosen.length > 0 && (
        <li>
          <a href={to(null)}>all {formatCount(counts.total)}</a>
        </li>
      )}
    </ul>
  );
}
