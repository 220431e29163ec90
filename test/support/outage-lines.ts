import type { Installation } from './installation.ts';
import { createKey } from './tenants.ts';

/** Lines of the logs of all processes at level warn or above, or that say that a dependency is back, since it was opened. */
export function openLoudLines({ processes }: Installation): () => readonly string[] {
  const before = new Map(processes.map((each) => [each, each.output().length]));
  return () =>
    processes.flatMap((each) =>
      each
        .output()
        .slice(before.get(each) ?? 0)
        .split('\n')
        .filter((line) => /"level":"(warn|error|fatal)"|is reachable again/.test(line)),
    );
}

/** The gauge `sluice_dependency_up` of the API. */
export async function readDependencyUp(
  { db, client }: Installation,
  dependency: string,
): Promise<number> {
  const { key } = await createKey(db, { organizationId: null });
  const { text } = await client.withKey(key).get('/metrics');
  const gauge = new RegExp(`^sluice_dependency_up\\{dependency="${dependency}"\\} (\\d)$`, 'm');
  return Number(gauge.exec(text)?.[1] ?? Number.NaN);
}
