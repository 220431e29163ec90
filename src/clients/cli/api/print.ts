import type { CliDeps } from '../deps.ts';
import type { ApiOptions } from './open-api.ts';

/** The answer as one line of JSON, or as lines for people. */
export function print(
  deps: CliDeps,
  { json }: ApiOptions,
  value: unknown,
  lines: () => readonly string[],
): void {
  if (json) deps.print(JSON.stringify(value));
  else for (const line of lines()) deps.print(line);
}
