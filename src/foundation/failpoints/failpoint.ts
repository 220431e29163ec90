export const failpointNames = [
  'claim',
  'before_open',
  'upload_begun',
  'first_part',
  'mid_part',
  'before_complete',
  'after_complete',
  'before_table',
  'after_table',
  'before_manifest',
  'after_manifest',
  'before_record',
  'before_removal',
  'before_enqueue',
  'before_statement',
  'before_put_statement',
  'after_put_statement',
  'before_chain',
] as const;

export type FailpointName = (typeof failpointNames)[number];

/** A test's act at a step: nothing, or an error, a wait, or the end of the process. */
type Actions = (name: FailpointName) => Promise<void>;

let armed: Actions | null = null;

/** For tests: a module that a test preloads calls it, never the service. @internal */
export function armFailpoints(actions: Actions): void {
  armed = actions;
}

/** Marks a step. Does nothing unless a test has armed it. */
export function failpoint(name: FailpointName): Promise<void> | undefined {
  return armed?.(name);
}
