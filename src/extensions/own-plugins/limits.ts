import { ownStepMib } from '../../rows/transforms/own-steps.ts';

/** Times are of the processor, if the system counts it (Linux). */
export interface SandboxLimits {
  readonly rowMs: number;
  readonly batchMs: number;
  readonly openMs: number;
  /** Memory of the plugin. What its process has besides is not counted. */
  readonly memoryMib: number;
  readonly maxAnswerChars: number;
}

/** Memory that Node itself needs beside that of a plugin. */
const ownMib = 96;

export const defaultLimits: SandboxLimits = {
  rowMs: 1_000,
  batchMs: 30_000,
  openMs: 10_000,
  memoryMib: ownStepMib - ownMib,
  maxAnswerChars: 32 * 1024 ** 2,
};

export function processMemoryMib({ memoryMib }: SandboxLimits): number {
  return memoryMib + ownMib;
}

export const maxSourceChars = 1_000_000;

/** Why a sandbox ended. Only `unavailable` is not the plugin's fault. */
export type SandboxFault =
  | 'invalid'
  | 'setup'
  | 'time'
  | 'memory'
  | 'output'
  | 'crashed'
  | 'unavailable';

/** Which rows ship never depends on a limit, so it ends the run. The message can follow the name of the step. */
export class SandboxError extends Error {
  readonly fault: SandboxFault;

  constructor(fault: SandboxFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SandboxError';
    this.fault = fault;
  }
}
