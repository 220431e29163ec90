import type { Terminal } from '../deps.ts';

const barWidth = 30;

export interface Progress {
  /** @param share from 0 to 1 */
  show(share: number, text: string): void;
  /** Removes the bar, so that a line can be printed in its place. */
  clear(): void;
  /** Ends the line of the bar. */
  end(): void;
}

/** A bar that is redrawn on a terminal; elsewhere one line per quarter. */
export function createProgress({
  err,
  drawsProgress,
}: Pick<Terminal, 'err' | 'drawsProgress'>): Progress {
  let quarter = -1;
  let isDrawn = false;
  return {
    show(share, text) {
      const percent = `${Math.floor(share * 100)}%`.padStart(4);
      if (drawsProgress) {
        const filled = Math.floor(share * barWidth);
        const bar = '█'.repeat(filled) + '░'.repeat(barWidth - filled);
        err(`\r\x1b[K${bar} ${percent}  ${text}`);
        isDrawn = true;
        return;
      }
      const now = Math.floor(share * 4);
      if (now > quarter) err(`${percent}  ${text}\n`);
      quarter = Math.max(quarter, now);
    },
    clear() {
      if (isDrawn) err('\r\x1b[K');
      isDrawn = false;
    },
    end() {
      if (isDrawn) err('\n');
      isDrawn = false;
    },
  };
}
