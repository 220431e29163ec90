/** One check of an installation. */
export interface Examined {
  readonly check: string;
  readonly result: 'ok' | 'warning' | 'failed';
  /** The finding; if it is not ok, also the remedy. */
  readonly detail: string;
}

export const ok = (check: string, detail: string): Examined => ({ check, result: 'ok', detail });
export const failed = (check: string, detail: string): Examined => ({
  check,
  result: 'failed',
  detail,
});

/** The message of an error; of the first one if there are many. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message || error.name : String(error);
}
