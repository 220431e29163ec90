const names: Readonly<Record<string, string>> = {
  postgres: 'Database',
  queue: 'Queue',
  workers: 'Workers',
  era: 'Database',
  source: 'Source',
};

/** What an answer of /readyz says is wrong: `Workers: no worker has reported …`. Empty if all is well. */
export function readServiceFaults(answer: unknown): readonly string[] {
  if (typeof answer !== 'object' || answer === null || !('checks' in answer)) return [];
  const { checks } = answer;
  if (typeof checks !== 'object' || checks === null) return [];
  return Object.entries(checks).flatMap(([part, state]) =>
    typeof state === 'string' && state !== 'ok' ? [`${names[part] ?? part}: ${state}.`] : [],
  );
}
