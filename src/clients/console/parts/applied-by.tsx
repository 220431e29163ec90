import type { Chain } from '../api-types.ts';
import { listSteps } from '../api.ts';
import { useConsole, useResource } from '../use-api.ts';
import { plural } from '../numbers.ts';
import { hrefOf } from '../route.ts';

/** Which exports apply the chain of the project: an enabled step changes their rows and no others. */
export function AppliedBy({ appliedBy }: { appliedBy?: Chain['applied_by'] | undefined }) {
  const { api } = useConsole();
  const { data } = useResource({
    key: `applied by ${appliedBy === undefined}`,
    load: async (signal) => (appliedBy ? null : (await listSteps(api, signal)).applied_by),
  });
  const chainUse = appliedBy ?? data;
  if (!chainUse) return null;
  const { count, exports, results } = chainUse;
  if (count === 0) {
    return (
      <span className="warn-text">
        No export of the project applies the chain: choose “Apply transformations” in the form of an
        export.
      </span>
    );
  }
  return (
    <span>
      Applied by {count} of {plural(exports, 'export')}:{' '}
      {results.map(({ id, name }, index) => (
        <span key={id}>
          {index > 0 && ', '}
          <a href={hrefOf({ page: 'export', exportId: id, tab: 'settings' })}>{name}</a>
        </span>
      ))}
      {count > results.length && ` and ${count - results.length} more`}.
    </span>
  );
}
