export const runSteps = ['prepare', 'settle', 'first_row', 'read', 'write', 'commit'] as const;
export type RunStep = (typeof runSteps)[number];

const reading = 'reading from the source';

const words: Readonly<Record<RunStep, string>> = {
  prepare: 'preparing the attempt',
  settle: 'waiting for open transactions of the source',
  first_row: reading,
  read: reading,
  write: 'writing to the destination',
  commit: 'committing at the destination',
};

export interface StepNow {
  readonly name: RunStep;
  readonly seconds: number;
}

/** Seconds after which a step counts as long, if the export has no run to compare with. */
const longSeconds = 60;

/** @param usual seconds of a usual run of the export; null: not known */
export const isLongStep = ({ seconds }: StepNow, usual: number | null): boolean =>
  seconds >= Math.max(longSeconds, 3 * (usual ?? 0));

/** `reading from the source for 7 min, the first row has not come; usually 2 s` */
export function describeStep({ name, seconds }: StepNow, usual: number | null): string {
  const row = name === 'first_row' ? ', the first row has not come' : '';
  const before = usual === null ? '' : `; usually ${spanOf(usual)}`;
  return `${words[name]} for ${spanOf(seconds)}${row}${before}`;
}

/** `50 s`, `7 min`, `2 h 5 min` */
function spanOf(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const rest = minutes % 60;
  return `${Math.floor(minutes / 60)} h${rest === 0 ? '' : ` ${rest} min`}`;
}
