import { type ReactNode, useState } from 'react';
import type { CheckStep, RowPreview } from '../api-types.ts';
import type { ApiFailure } from '../api.ts';
import { useAction, useConsole } from '../use-api.ts';
import { Failure } from './notice.tsx';
import { formatCell } from '../numbers.ts';

interface TrialProps {
  readonly busy: boolean;
  /** Why there is no answer, as far as no field shows it. */
  readonly failure: ApiFailure | null;
  readonly onTry: () => void;
}

interface Props extends TrialProps {
  readonly verb: string;
  readonly busyText: string;
  readonly help: string;
  readonly children: ReactNode;
}

function TryOut({ verb, busyText, help, busy, failure, onTry, children }: Props) {
  return (
    <div className="check">
      <button type="button" aria-disabled={busy} onClick={onTry}>
        {busy ? busyText : verb}
      </button>{' '}
      <small className="muted">{help}</small>
      <Failure failure={failure} />
      {children}
    </div>
  );
}

/** The subject of each step of a test. The others are guarantees of the store: they are shown only if one is weaker. */
const stepNames: Readonly<Record<string, string>> = {
  open: 'Settings',
  answer: 'Answer of the store',
  address: 'Address of the store',
  credentials: 'Access key',
  bucket: 'Bucket',
  directory: 'Folder',
  prefix: 'Prefix',
  write: 'Write a file',
  encryption: 'Encryption',
  delete: 'Remove the file',
};

/** Tries a destination, and shows the steps of the test as they passed or failed. */
export function TryDestination(props: TrialProps & { steps: readonly CheckStep[] | null }) {
  return (
    <TryOut
      {...props}
      verb="Test destination"
      busyText="Testing…"
      help="Writes a file and removes it again. Nothing is saved."
    >
      <ol className="steps" aria-live="polite">
        {props.steps?.filter(isShown).map(({ step, passed, error, warning }) => (
          <li key={step} className={passed ? 'passed' : 'failed'}>
            <strong>{stepNames[step] ?? 'Guarantees of the store'}</strong>{' '}
            {passed ? 'passed' : 'failed'}
            {error !== null && <p className="step-note bad-text">{error}</p>}
            {warning !== null && <p className="step-note warn-text">{warning}</p>}
          </li>
        ))}
      </ol>
    </TryOut>
  );
}

const isShown = ({ step, passed, warning }: CheckStep) =>
  step in stepNames || !passed || warning !== null;

export function TryRows(props: TrialProps & { rows: RowPreview | null }) {
  return (
    <TryOut
      {...props}
      verb="Preview rows"
      busyText="Loading…"
      help="Some of the newest rows. Nothing is written."
    >
      {props.rows && <Sample preview={props.rows} />}
    </TryOut>
  );
}

/** An action with its last answer: null until there is one, and while the next is on its way. */
export function useTrial<T>(ask: () => Promise<T>) {
  const [result, setResult] = useState<T | null>(null);
  const action = useAction(async () => {
    setResult(null);
    setResult(await ask());
  });
  return { ...action, result, forget: () => setResult(null) };
}

interface SavedProps {
  readonly exportId: string;
}

export function TrySavedDestination({ exportId }: SavedProps) {
  const { api, may } = useConsole();
  const { run, busy, failure, result } = useTrial(
    async () => (await api.post('batch_exports/{id}/test', { id: exportId })).steps,
  );
  if (!may('batch_export:write')) return null;
  return <TryDestination {...{ busy, failure }} steps={result} onTry={() => void run()} />;
}

export function TrySavedRows({ exportId }: SavedProps) {
  const { api, may } = useConsole();
  const { run, busy, failure, result } = useTrial(() =>
    api.post('batch_exports/preview', {}, { id: exportId }),
  );
  if (!may('batch_export:read')) return null;
  return <TryRows {...{ busy, failure }} rows={result} onTry={() => void run()} />;
}

const shown = 20;

function Sample({ preview }: { preview: RowPreview }) {
  return (
    <>
      <SampleTable preview={preview} />
      <LeftOut sentence={preview.left_out} />
    </>
  );
}

export function LeftOut({ sentence }: { sentence: string | null }) {
  return sentence === null ? null : <p role="status">{sentence}</p>;
}

function SampleTable({ preview: { columns, rows } }: { preview: RowPreview }) {
  if (rows.length === 0) {
    return (
      <p className="muted" role="status">
        There are no rows to show.
      </p>
    );
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
    <section className="sample small" aria-label="Preview of rows" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ name, type }) => (
              <th key={name} scope="col">
                {name} <small className="muted">{type}</small>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(-shown).map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no known key.
            <tr key={index}>
              {columns.map(({ name }, column) => (
                <td key={name}>{formatCell(row[column])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
