/** `8,312`; a dash for what is not known. */
export function formatCount(count: number | null): string {
  return count === null ? '–' : count.toLocaleString('en-US');
}

const sizes = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `1.5 MiB` */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let step = 0;
  while (value >= 1_024 && step < sizes.length - 1) {
    value /= 1_024;
    step += 1;
  }
  return `${value >= 100 || step === 0 ? Math.round(value) : value.toFixed(1)} ${sizes[step]}`;
}

/** `1 run`, `3 runs` */
export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${word}${count === 1 ? '' : 's'}`;
}
