import { cpus, totalmem } from 'node:os';
import type { Taken } from './taken.ts';
import type { Way } from './ways.ts';

/** Medians of each way's rounds as a Markdown table; ratios are to the first way's wall time. */
export function printTable(results: ReadonlyMap<Way, readonly Taken[]>): string {
  const [limit] = results.values();
  const limitMs = medianOf(limit, 'wallMs') ?? Number.NaN;
  const lines = [...results].map(([{ label, bar }, taken]) => {
    const cells = [
      label.replaceAll('|', '\\|'),
      shown((medianOf(taken, 'wallMs') ?? Number.NaN) / limitMs, 2),
      shown(bar, 2),
      shown(medianOf(taken, 'wallMs')),
      shown(medianOf(taken, 'cpuMs')),
      shown(cpuPerRow(taken), 2),
      shown(medianOf(taken, 'childrenCpuMs') || null),
      shown(medianOf(taken, 'peakMib')),
      shown((medianOf(taken, 'bytes') ?? Number.NaN) / 1e6, 1),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  const head =
    '| way | ratio | bar | wall ms | own CPU ms | µs per row | plugin CPU ms | peak RSS MiB | object MB |';
  return [head, '|---|---|---|---|---|---|---|---|---|', ...lines].join('\n');
}

/** Microseconds of the exporting process's CPU; null for ways that do not count them. */
function cpuPerRow(taken: readonly Taken[]): number | null {
  const [cpuMs, rows] = [medianOf(taken, 'cpuMs'), medianOf(taken, 'rows')];
  return cpuMs === null || rows === null ? null : (cpuMs * 1_000) / rows;
}

export function describeMachine(): string {
  const [cpu] = cpus();
  const gib = Math.round(totalmem() / 1024 ** 3);
  return `${cpus().length} × ${cpu?.model.trim()}, ${gib} GiB, Node ${process.versions.node}`;
}

function medianOf(taken: readonly Taken[] | undefined, key: keyof Taken): number | null {
  const values = (taken ?? [])
    .flatMap((one) => one[key] ?? [])
    .toSorted((one, other) => one - other);
  const low = values[(values.length - 1) >> 1];
  const high = values[values.length >> 1];
  return low === undefined || high === undefined ? null : (low + high) / 2;
}

function shown(value: number | null, digits = 0): string {
  return value === null || Number.isNaN(value) ? '' : value.toFixed(digits);
}
