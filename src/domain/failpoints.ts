/** Every named place where a test may break a process. */
export const failpointNames = [
  'claim',
  'before_open',
  'upload_begun',
  'first_part',
  'mid_part',
  'before_complete',
  'after_complete',
  'before_manifest',
  'after_manifest',
  'before_record',
  'before_removal',
  'before_enqueue',
] as const;

export type FailpointName = (typeof failpointNames)[number];

/** What happens at a place: nothing more, or an error, a wait, or the end of the process. */
export type Failpoints = (name: FailpointName) => Promise<void>;

let armed: Failpoints | null = null;

/** For the composition root of a test build only. */
export function armFailpoints(failpoints: Failpoints): void {
  armed = failpoints;
}

/** Marks a place. Nothing at all unless a test has armed it. */
export function hit(name: FailpointName): Promise<void> | undefined {
  return armed?.(name);
}
