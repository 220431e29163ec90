/** `8,312`; a dash if unknown. */
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

/** A value of a row on one line: text unchanged, objects as JSON; truncated to 80 characters. */
export function formatCell(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${word}${count === 1 ? '' : 's'}`;
}

/** `99.98%`; less than all is never shown as 100%. */
export function formatShare(share: number): string {
  const percent = Math.floor(share * 10_000) / 100;
  return `${percent.toLocaleString('en-US', { maximumFractionDigits: 2 })}%`;
}
