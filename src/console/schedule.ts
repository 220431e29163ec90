/** One interval that is to come. */
export interface PlannedInterval {
  readonly start: string;
  readonly end: string;
  readonly hours: number | null;
  /** What becomes of it as things stand, where the service says so. */
  readonly fate: string;
}

/** Reads the schedule's preview: a list, or an object with the list under `intervals` or `results`. */
export function readSchedule(answer: unknown): readonly PlannedInterval[] {
  const list = Array.isArray(answer) ? answer : listIn(answer);
  return list.flatMap((item: unknown) => {
    if (typeof item !== 'object' || item === null) return [];
    const { start, end, hours, fate } = item as Readonly<Record<string, unknown>>;
    if (typeof start !== 'string' || typeof end !== 'string') return [];
    return {
      start,
      end,
      hours: typeof hours === 'number' ? hours : null,
      fate: typeof fate === 'string' ? fate : '',
    };
  });
}

function listIn(answer: unknown): readonly unknown[] {
  if (typeof answer !== 'object' || answer === null) return [];
  const { intervals, results } = answer as Readonly<Record<string, unknown>>;
  return Array.isArray(intervals) ? intervals : Array.isArray(results) ? results : [];
}
