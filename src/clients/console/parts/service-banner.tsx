import { readServiceFaults } from '../service-faults.ts';
import { useResource } from '../use-resource.ts';

/** Faults of the whole service, such as that no worker is alive; nothing if all is well. */
export function ServiceBanner() {
  const { data } = useResource({
    key: 'readyz',
    load: async (signal) => readServiceFaults(await (await fetch('/readyz', { signal })).json()),
    pollMs: () => 15_000,
  });
  if (!data || data.length === 0) return null;
  return (
    <section className="row alert is-paused" aria-label="State of the service">
      <div>
        <p>
          <strong>The service is degraded.</strong> Runs may start late.
        </p>
        {data.map((fault) => (
          <p key={fault}>{fault}</p>
        ))}
      </div>
    </section>
  );
}
