import { type PointerEvent, type RefObject, useEffect, useRef, useState } from 'react';
import { positionAt } from './chain-order.ts';

interface Drag {
  readonly from: number;
  readonly to: number;
}

interface DragOfList<L extends HTMLElement> {
  readonly list: RefObject<L | null>;
  /** Null while nothing is dragged. */
  readonly drag: Drag | null;
  /** Handlers of the handle of the item at a position. */
  readonly handlersOf: (position: number) => {
    readonly onPointerDown: (event: PointerEvent) => void;
    readonly onPointerMove: (event: PointerEvent) => void;
    readonly onPointerUp: () => void;
    readonly onPointerCancel: () => void;
  };
}

/** Drags items of a vertical list by a handle, with a mouse, pen or finger. Escape ends it without a move. */
export function useDrag<L extends HTMLElement>(
  onMoved: (from: number, to: number) => void,
): DragOfList<L> {
  const list = useRef<L>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const isDragging = drag !== null;
  useEffect(() => {
    if (!isDragging) return;
    const cancel = (event: KeyboardEvent) => {
      if (event.key === 'Escape') setDrag(null);
    };
    document.addEventListener('keydown', cancel);
    return () => document.removeEventListener('keydown', cancel);
  }, [isDragging]);

  const positionOf = (from: number, pointer: number) => {
    const others = [...(list.current?.children ?? [])].filter((_, position) => position !== from);
    const middles = others.map((item) => {
      const { top, height } = item.getBoundingClientRect();
      return top + height / 2;
    });
    return positionAt(middles, pointer);
  };
  const handlersOf = (position: number) => ({
    onPointerDown(event: PointerEvent) {
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      setDrag({ from: position, to: position });
    },
    onPointerMove({ clientY }: PointerEvent) {
      if (drag) setDrag({ from: drag.from, to: positionOf(drag.from, clientY) });
    },
    onPointerUp() {
      setDrag(null);
      if (drag && drag.from !== drag.to) onMoved(drag.from, drag.to);
    },
    onPointerCancel: () => setDrag(null),
  });
  return { list, drag, handlersOf };
}
