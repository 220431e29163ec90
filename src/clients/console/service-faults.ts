import { isRecord } from './json.ts';

const names: Readonly<Record<string, string>> = {
  postgres: 'Database',
  queue: 'Queue',
  workers: 'Workers',
  era: 'Database',
  source: 'Source',
};

/** The faults that an answer of /readyz names: `Workers: no worker has reported …`. Empty if all is well. */
export function readServiceFaults(answer: unknown): readonly string[] {
  if (!isRecord(answer) || !isRecord(answer.checks)) return [];
  return Object.entries(answer.checks).flatMap(([part, state]) =>
    typeof state === 'string' && state !== 'ok' ? [`${names[part] ?? part}: ${state}.`] : [],
  );
}
