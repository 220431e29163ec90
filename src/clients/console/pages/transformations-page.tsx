import { listSteps } from '../api.ts';
import { useConsole } from '../console-context.ts';
import { plural } from '../numbers.ts';
import { AppliedBy } from '../parts/applied-by.tsx';
import { ChainList } from '../parts/chain-list.tsx';
import { Lab } from '../parts/lab.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { hrefOf } from '../route.ts';
import { useLab } from '../use-lab.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';

/** The chain of the project, and the lab. */
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
