import { type ReactNode, useState } from 'react';
import type { CheckStep, RowPreview } from '../api-types.ts';
import type { ApiFailure } from '../api-call.ts';
import { CheckSteps } from '../parts/destination-test.tsx';
import { Failure } from '../parts/notice.tsx';
import { Sample } from '../parts/row-sample.tsx';

interface Props<T> {
  readonly verb: string;
  readonly busyText: string;
  readonly help: string;
  readonly busy: boolean;
  readonly failure: ApiFailure | null;
  readonly result: T | null;
  readonly onTry: () => void;
  readonly show: (result: T) => ReactNode;
}

function TryOut<T>({ verb, busyText, help, busy, failure, result, onTry, show }: Props<T>) {
  return (
    <div className="check">
      <button type="button" aria-disabled={busy} onClick={onTry}>
        {busy ? busyText : verb}
      </button>{' '}
      <small className="muted">{help}</small>
      <Failure failure={failure} />
      {result !== null && show(result)}
    </div>
  );
}

interface TrialProps {
  readonly busy: boolean;
  /** Why there is no answer, as far as no field shows it. */
  readonly failure: ApiFailure | null;
  readonly onTry: () => void;
}

export function TryDestination(props: TrialProps & { steps: readonly CheckStep[] | null }) {
  return (
    <TryOut
      {...props}
      verb="Test destination"
      busyText="Testing…"
      help="Writes an object and removes it again. Nothing is saved."
      result={props.steps}
      show={(steps) => <CheckSteps steps={steps} />}
    />
  );
}

/** Shows rows as the form has the export. */
export function TryRows(props: TrialProps & { rows: RowPreview | null }) {
  return (
    <TryOut
      {...props}
      verb="Preview rows"
      busyText="Loading…"
      help="Some of the newest rows. Nothing is written."
      result={props.rows}
      show={(preview) => <Sample preview={preview} />}
    />
  );
}

/** The last answer of a trial. `null` until there is one, and while the next is on its way. */
export function useTrial<T>(ask: () => Promise<T>) {
  const [result, setResult] = useState<T | null>(null);
  const work = async () => {
    setResult(null);
    setResult(await ask());
  };
  return { result, work, clear: () => setResult(null) };
}
