/** One check of an installation. */
export interface Examined {
  readonly check: string;
  readonly result: 'ok' | 'warning' | 'failed';
  /** What was found; if it is not ok, also what to do. */
  readonly detail: string;
}

export const ok = (check: string, detail: string): Examined => ({ check, result: 'ok', detail });
export const failed = (check: string, detail: string): Examined => ({
  check,
  result: 'failed',
  detail,
});
