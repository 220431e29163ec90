import type { ReactNode } from 'react';
import type { CursorPage, OffsetPage } from '../api-types.ts';
import { cursorOf } from '../api.ts';
import { formatCount } from '../numbers.ts';
import { fromAt, useQuery } from '../use-route.ts';

interface Props {
  readonly onNewer: (() => void) | null;
  readonly onOlder: (() => void) | null;
  readonly names?: readonly [newer: string, older: string];
  readonly children?: ReactNode;
}

/** Buttons for newer and older pages; nothing if there is only one page. At an end they keep the focus, so they are not disabled. */
export function Pager({ onNewer, onOlder, names = ['Newer', 'Older'], children }: Props) {
  if (!onNewer && !onOlder) return null;
  return (
    <nav className="pager" aria-label="Pages">
      <button type="button" aria-disabled={!onNewer} onClick={() => onNewer?.()}>
        ← {names[0]}
      </button>
      {children}
      <button type="button" aria-disabled={!onOlder} onClick={() => onOlder?.()}>
        {names[1]} →
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
  readonly name?: string;
}

/** `51–100 of 5,000`, with buttons; nothing if there is only one page. */
export function OffsetPager({ page, pageSize, offset, name = 'from' }: OffsetProps) {
  const { setQuery } = useQuery();
  const { count, results, next } = page;
  const goTo = (to: number) => () => setQuery({ [name]: fromAt(to) });
  // A page of large rows ends early; one beyond the end leads back to the last one.
  const before = Math.min(offset, Math.ceil(count / pageSize) * pageSize) - pageSize;
  return (
    <Pager
      onNewer={offset === 0 ? null : goTo(before)}
      onOlder={next === null ? null : goTo(offset + results.length)}
      names={['Previous', 'Next']}
    >
      <span className="muted small">
        {results.length > 0 &&
          `${formatCount(offset + 1)}–${formatCount(offset + results.length)} of `}
        {formatCount(count)}
      </span>
    </Pager>
  );
}
