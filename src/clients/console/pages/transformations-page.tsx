import type { Step } from '../api-types.ts';
import { listSteps } from '../api.ts';
import { useConsole } from '../console-context.ts';
import { plural } from '../numbers.ts';
import { AppliedBy } from '../parts/applied-by.tsx';
import { ChainList } from '../parts/chain-list.tsx';
import { Lab } from '../parts/lab.tsx';
import { Empty, Failure, Pending } from '../parts/notice.tsx';
import { StepCounts } from '../parts/step-counts.tsx';
import { hrefOf } from '../route.ts';
import { countedRuns } from '../step-counts.ts';
import { useLab } from '../use-lab.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';

/** The chain of the project, the lab, and what the steps did in the last runs. */
export function TransformationsPage() {
  const { api, may } = useConsole();
  const { data, failure, reload } = useResource({
    key: 'steps',
    load: (signal) => listSteps(api, signal),
    pollMs: () => 15_000,
  });
  useTitle('Transformations');
  const steps = data?.results ?? [];
  return (
    <>
      <div className="row heading">
        <h1>Transformations</h1>
        {steps.length > 0 && <span className="muted">{plural(steps.length, 'step')}</span>}
        {may('plugin:write') && (
          <a className="button primary last" href={hrefOf({ page: 'new-step' })}>
            New step
          </a>
        )}
      </div>
      <Pending {...{ data, failure, reload }} lines={5} />
      {data?.count === 0 && (
        <Empty title="No transformations yet">
          <p>
            A chain of steps changes, drops or hides rows before they are exported. It changes the
            exports that apply transformations.
          </p>
        </Empty>
      )}
      {data && steps.length > 0 && (
        <p>
          <AppliedBy appliedBy={data.applied_by} />
        </p>
      )}
      {steps.length > 0 && <ChainList steps={steps} />}
      {steps.length > 0 && may('plugin:write') && <StoredLab />}
      {data && <LastRuns steps={steps} />}
    </>
  );
}

function StoredLab() {
  const lab = useLab(() => ({ transformations: true }));
  return (
    <div className="section">
      <Lab lab={lab} title="Lab">
        <p className="muted">The enabled steps, as they are stored. Nothing is exported.</p>
      </Lab>
    </div>
  );
}

const shownRuns = 10;
const listedExports = 50;

function LastRuns({ steps }: { steps: readonly Step[] }) {
  const { api } = useConsole();
  const { data, failure, reload } = useResource({
    key: 'counts',
    load: (signal) =>
      api.get('batch_exports', { ordering: '-last_run', limit: listedExports }, signal),
    pollMs: () => 15_000,
  });
  const counted = countedRuns(data?.results ?? [], shownRuns);
  return (
    <section aria-label="Last runs">
      <h2 className="section">Last runs</h2>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {data && counted.length === 0 && (
        <p className="muted">
          No run has applied the chain yet. Turn on transformations in the form of an export.
        </p>
      )}
      {counted.length > 0 && <StepCounts counted={counted} steps={steps} />}
      {data?.next && (
        <p className="muted small">
          Only the {listedExports} exports with the newest runs are shown.
        </p>
      )}
    </section>
  );
}
