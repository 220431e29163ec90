import type { CursorPage, OffsetPage } from '../api-types.ts';
import { cursorOf } from '../api.ts';
import { formatCount } from '../numbers.ts';
import { fromAt, useQuery } from '../use-query.ts';

interface Props {
  readonly onNewer: (() => void) | null;
  readonly onOlder: (() => void) | null;
}

/** Buttons for newer and older pages; nothing if there is only one page. At an end they keep the focus, so they are not disabled. */
export function Pager({ onNewer, onOlder }: Props) {
  if (!onNewer && !onOlder) return null;
  return (
    <nav className="pager" aria-label="Pages">
      <button type="button" aria-disabled={!onNewer} onClick={() => onNewer?.()}>
        ← Newer
      </button>
      <button type="button" aria-disabled={!onOlder} onClick={() => onOlder?.()}>
        Older →
      </button>
    </nav>
  );
}

interface CursorProps {
  readonly page: CursorPage<unknown>;
  readonly onMove: (cursor: string | null) => void;
}

export function CursorPager({ page, onMove }: CursorProps) {
  const to = (link: string | null) => (link === null ? null : () => onMove(cursorOf(link)));
  return <Pager onNewer={to(page.previous)} onOlder={to(page.next)} />;
}

interface OffsetProps {
  readonly page: OffsetPage<unknown>;
  readonly pageSize: number;
  readonly offset: number;
  /** The parameter of the address. */
  readonly name?: string;
}

/** `51–100 of 5,000`, with buttons; nothing if there is only one page. */
export function OffsetPager({ page, pageSize, offset, name = 'from' }: OffsetProps) {
  const { setQuery } = useQuery();
  const { count, results, next } = page;
  if (offset === 0 && next === null) return null;
  const goTo = (to: number) => () => setQuery({ [name]: fromAt(to) });
  // A page of large rows ends early; one beyond the end leads back to the last one.
  const before = Math.min(offset, Math.ceil(count / pageSize) * pageSize) - pageSize;
  return (
    <nav className="pager" aria-label="Pages">
      <button
        type="button"
        aria-disabled={offset === 0}
        onClick={offset === 0 ? undefined : goTo(before)}
      >
        ← Previous
      </button>
      <span className="muted small">
        {results.length > 0 &&
          `${formatCount(offset + 1)}–${formatCount(offset + results.length)} of `}
        {formatCount(count)}
      </span>
      <button
        type="button"
        aria-disabled={next === null}
        onClick={next === null ? undefined : goTo(offset + results.length)}
      >
        Next →
      </button>
    </nav>
  );
}
