import { useState } from 'react';
import type { CheckStep } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { useAction } from '../use-action.ts';
import { Failure } from './notice.tsx';

/** Runs the destination's own checks and shows each step. */
export function DestinationTest({ exportId }: { exportId: string }) {
  const { client, may } = useConsole();
  const [steps, setSteps] = useState<readonly CheckStep[]>([]);
  const test = useAction(async () => {
    setSteps([]);
    setSteps((await client.testDestination(exportId)).steps);
  });
  if (!may('batch_export:write')) return null;
  return (
    <div className="check">
      <button type="button" aria-disabled={test.busy} onClick={() => void test.run()}>
        {test.busy ? 'Testing…' : 'Test the destination'}
      </button>
      <Failure failure={test.failure} />
      <CheckSteps steps={steps} />
    </div>
  );
}

export function CheckSteps({ steps }: { steps: readonly CheckStep[] }) {
  return (
    <ol className="steps" aria-live="polite">
      {steps.map(({ step, passed, error, warning }) => (
        <li key={step} className={passed ? 'passed' : 'failed'}>
          <strong>{step}</strong> {passed ? 'passed' : 'failed'}
          {error !== null && <p className="step-note bad-text">{error}</p>}
          {warning !== null && <p className="step-note warn-text">{warning}</p>}
        </li>
      ))}
    </ol>
  );
}
