import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { GridRow } from '../coverage-grid.ts';

/** Milliseconds, from the start of the first selected cell to the end of the last. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

interface Props {
  readonly columns: readonly string[];
  readonly rows: readonly GridRow[];
  readonly cellMs: number;
  readonly selected: Span | null;
  readonly onSelect: (span: Span) => void;
}

/**
 * The coverage as a grid. Drag over cells to select a range, or tap its first and last cell; or move with the arrow keys, and hold Shift to
 * select.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one form or table, from top to bottom
export function CoverageTable({ columns, rows, cellMs, selected, onSelect }: Props) {
  const newest = rows[0]?.cells.at(-1)?.start ?? 0;
  const oldest = rows.at(-1)?.cells[0]?.start ?? 0;
  /** The first cell of a selection, and the cell that has the focus. */
  const [anchor, setAnchor] = useState<number | null>(null);
  const [focused, setFocused] = useState(newest);
  const table = useRef<HTMLTableElement>(null);
  const isDragging = useRef(false);
  useEffect(() => {
    const stop = () => {
      isDragging.current = false;
    };
    window.addEventListener('pointerup', stop);
    return () => window.removeEventListener('pointerup', stop);
  }, []);

  // On a phone the newest hours are at the far end.
  useEffect(() => {
    const requested = 'td:not(.state-none, .state-never_asked)';
    const row = table.current?.querySelector(requested)?.closest('tr');
    const last = [...(row?.querySelectorAll<HTMLElement>(requested) ?? [])].at(-1);
    const scrolled = table.current?.parentElement;
    if (!scrolled || !last) return;
    scrolled.scrollLeft = last.offsetLeft + last.offsetWidth - scrolled.clientWidth;
  }, []);

  const select = (from: number, to: number) =>
    onSelect({ start: Math.min(from, to), end: Math.max(from, to) + cellMs });
  const begin = (at: number, extend: boolean) => {
    const from = extend && anchor !== null ? anchor : at;
    setAnchor(from);
    setFocused(at);
    select(from, at);
  };
  const move = (event: KeyboardEvent) => {
    // Newer rows are above older ones.
    const steps: Readonly<Record<string, number>> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: columns.length,
      ArrowDown: -columns.length,
    };
    const step = steps[event.key];
    if (step === undefined) {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      begin(focused, event.shiftKey);
      return;
    }
    event.preventDefault();
    const to = Math.min(newest, Math.max(oldest, current + step * cellMs));
    setFocused(to);
    table.current?.querySelector<HTMLElement>(`[data-at="${to}"]`)?.focus();
    if (!event.shiftKey) return;
    const from = anchor ?? current;
    setAnchor(from);
    select(from, to);
  };
  const current = Math.min(newest, Math.max(oldest, focused));
  /** A finger scrolls, so it cannot drag: after the first cell it taps the last one. */
  const isSecondTap = (type: string) =>
    type === 'touch' && selected !== null && selected.end - selected.start === cellMs;
  return (
    <table
      ref={table}
      className="coverage"
      // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table whose cells are selected.
      role="grid"
      aria-label="Coverage"
      aria-multiselectable="true"
      onKeyDown={move}
    >
      <thead>
        <tr>
          <th scope="col">
            <span className="unseen">Day</span>
          </th>
          {columns.map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, cells }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {cells.map(({ start, state, glyph, text }) => {
              const isSelected =
                selected !== null && start >= selected.start && start < selected.end;
              return (
                <td
                  key={start}
                  // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a cell of a grid.
                  role="gridcell"
                  data-at={start}
                  className={`state-${state ?? 'none'}`}
                  aria-selected={isSelected}
                  title={text}
                  tabIndex={start === current ? 0 : -1}
                  onPointerDown={(event) => {
                    isDragging.current = event.pointerType === 'mouse';
                    begin(start, event.shiftKey || isSecondTap(event.pointerType));
                  }}
                  onPointerEnter={() => {
                    if (isDragging.current && anchor !== null) select(anchor, start);
                  }}
                >
                  <span className="unseen">{text}</span>
                  <span aria-hidden="true">{glyph}</span>
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
