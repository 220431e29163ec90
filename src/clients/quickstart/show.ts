/** What the quickstart shows on the terminal. */

import type { components } from '../../../dist/api-schema.d.ts';

const barWidth = 40;

/** A bar that is redrawn on a terminal; elsewhere one line per quarter. */
export function createProgressBar(out: NodeJS.WriteStream): (share: number, text: string) => void {
  let last = -1;
  return (share, text) => {
    const filled = Math.round(share * barWidth);
    const line = `  ${'█'.repeat(filled)}${'░'.repeat(barWidth - filled)} ${Math.round(share * 100)}%  ${text}`;
    if (out.isTTY) {
      out.write(`\r\x1b[K${line}${share >= 1 ? '\n' : ''}`);
      return;
    }
    const quarter = Math.floor(share * 4);
    if (quarter > last) out.write(`${line}\n`);
    last = Math.max(last, quarter);
  };
}

export function runTable(runs: readonly components['schemas']['BatchExportRun'][]): string {
  const rows = runs.map((run) => {
    const seconds = Math.max(
      (Date.parse(run.finished_at ?? '') - Date.parse(run.started_at ?? run.created_at)) / 1000,
      0.001,
    );
    const count = run.records_completed ?? 0;
    return [
      `${run.data_interval_start?.slice(0, 16)}Z – ${run.data_interval_end.slice(11, 16)}Z`,
      run.status,
      count.toLocaleString('en'),
      run.bytes_exported.toLocaleString('en'),
      seconds.toFixed(2),
      Math.round(count / seconds).toLocaleString('en'),
    ];
  });
  const head = ['interval', 'status', 'rows', 'bytes', 'seconds', 'rows/s'];
  const widths = head.map((name, column) =>
    Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const show = (row: readonly string[]) =>
    `  ${row
      .map((cell, column) =>
        column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')}`;
  return [head, ...rows].map(show).join('\n');
}
