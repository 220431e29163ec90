import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { TimeFormat } from '../times.ts';
import { useTimes } from '../use-times.ts';

interface Props {
  /** Starts in seconds since the epoch, ascending; and values, null if not known. */
  readonly columns: [number[], (number | null)[]];
  /** Length of the last interval in seconds. */
  readonly step: number;
  readonly format: (value: number) => string;
  /** The chart in words, for those who do not see it. */
  readonly label: string;
  /** The point that is marked. */
  readonly selected: number;
  readonly onSelect: (index: number) => void;
}

const height = 150;

/** Bars over time. Everything that it shows is also in the text and the table beside it. */
export function Chart({ columns, step, format, label, selected, onSelect }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const scheme = useColourScheme();
  const times = useTimes();
  const latest = useRef({ format, onSelect, selected, step });
  latest.current = { format, onSelect, selected, step };

  // biome-ignore lint/correctness/useExhaustiveDependencies: another scheme has other colours.
  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const plot = new uPlot(optionsOf(host, latest, times), columns, host);
    chart.current = plot;
    mark(plot, latest.current.selected);
    const resize = new ResizeObserver(() => {
      plot.setSize({ width: host.clientWidth, height });
      mark(plot, latest.current.selected);
    });
    resize.observe(host);
    return () => {
      resize.disconnect();
      plot.destroy();
      chart.current = null;
    };
  }, [columns, scheme, times]);

  useEffect(() => {
    if (chart.current) mark(chart.current, selected);
  }, [selected]);
  return <div ref={box} className="plot" role="img" aria-label={label} />;
}

/** Puts the cursor on a point, as the pointer would. */
function mark(plot: uPlot, index: number): void {
  const at = plot.data[0]?.[index];
  if (at !== undefined) plot.setCursor({ left: plot.valToPos(at, 'x'), top: -10 }, false);
}

interface Latest {
  readonly current: Pick<Props, 'format' | 'onSelect' | 'selected' | 'step'>;
}

function optionsOf(host: HTMLElement, latest: Latest, times: TimeFormat): uPlot.Options {
  const ink = colourOf(host, '--muted');
  const line = { stroke: colourOf(host, '--line'), width: 1 };
  const axis = { stroke: ink, grid: line, ticks: line, font: '12px system-ui, sans-serif' };
  const bars = uPlot.paths.bars?.({ size: [0.8, 60], align: 1 });
  const { timeZone } = times;
  return {
    ...(timeZone !== undefined && {
      tzDate: (at: number) => uPlot.tzDate(new Date(at * 1_000), timeZone),
    }),
    width: host.clientWidth,
    height,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      // A bar begins at its start: the last one needs room too.
      x: { range: (_plot, min, max) => [min, max + latest.current.step] },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.05 : 1] },
    },
    axes: [
      { ...axis, values: (_plot, splits) => splits.map((at) => times.tick(at * 1_000)) },
      {
        ...axis,
        size: 76,
        values: (_plot, splits) => splits.map((value) => latest.current.format(value)),
      },
    ],
    series: [
      {},
      {
        fill: colourOf(host, '--accent'),
        width: 0,
        points: { show: false },
        ...(bars && { paths: bars }),
      },
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx, event } }) => {
          const isByPerson = event !== null && event !== undefined;
          if (isByPerson && typeof idx === 'number' && idx !== latest.current.selected) {
            latest.current.onSelect(idx);
          }
        },
      ],
    },
  };
}

/** A canvas knows no variables: asks the page what a colour is in its scheme. */
function colourOf(element: HTMLElement, variable: string): string {
  element.style.color = `var(${variable})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}

/** The scheme of the reader: `dark` or `light`. */
function useColourScheme(): 'dark' | 'light' {
  const query = '(prefers-color-scheme: dark)';
  const [isDark, setDark] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const change = () => setDark(list.matches);
    list.addEventListener('change', change);
    return () => list.removeEventListener('change', change);
  }, []);
  return isDark ? 'dark' : 'light';
}
