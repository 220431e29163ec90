import { type ReactNode, useState } from 'react';
import type { PreviewRequest, RowPreview, TracedStep, Trial } from '../api-types.ts';
import { ApiFailure } from '../api.ts';
import { useAction, useConsole, useDescription } from '../use-api.ts';
import { labRowsOf } from '../json.ts';
import { Choice, CodeField, onSubmit, TextField } from '../form/inputs.tsx';
import { fieldsIn } from '../form/fields.ts';
import { modelChoices } from '../form/draft.ts';
import { FieldsToCorrect, problemsOf, useFocusOnProblem } from '../form/form-problems.tsx';
import { Failure } from './notice.tsx';
import { formatCount, plural } from '../numbers.ts';
import { LeftOut } from './try-out.tsx';
import { Heads } from './tables.tsx';

interface LabDraft {
  readonly source: 'newest' | 'rows';
  readonly limit: string;
  readonly rows: string;
  /** Empty: the default of the installation, if it has one. */
  readonly model: string;
}

type LabState = ReturnType<typeof useLab>;

const firstDraft = { source: 'newest', limit: '5', rows: '', model: '' } as const;

/** @param chain the chain to try, read when the lab runs */
export function useLab(chain: () => Pick<PreviewRequest, 'configs' | 'transformations'>) {
  const { api } = useConsole();
  const here = useDescription().data?.installation;
  const [draft, setDraft] = useState<LabDraft>(firstDraft);
  const [result, setResult] = useState<RowPreview | null>(null);
  const ask = async (request: PreviewRequest) => {
    try {
      return await api.post('batch_exports/preview', {}, { ...chain(), ...request, trace: true });
    } catch (error) {
      throw error instanceof ApiFailure ? atStep(error) : error;
    }
  };
  const { run, busy, failure, clear } = useAction(async () => {
    setResult(null);
    setResult(await ask(requestOf(draft)));
  });
  /** Only whether the API takes the settings. Throws ApiFailure if not. */
  const check = async () => {
    // Settings are checked alike for all models.
    const model = draft.model || here?.models[0]?.name;
    await ask({ ...(model && { model }), rows: [{}] });
  };
  const change = (part: Partial<LabDraft>) => setDraft((last) => ({ ...last, ...part }));
  return { draft, change, run, check, busy, failure, clear, result };
}

function requestOf({ source, limit, rows, model: name }: LabDraft): PreviewRequest {
  const model = name === '' ? {} : { model: name };
  if (source === 'newest') return { ...model, limit: Number(limit) };
  const read = labRowsOf(rows);
  if (read !== null) return { ...model, rows: read };
  const detail = 'Write a JSON object, a list of JSON objects, or one JSON object per line.';
  throw new ApiFailure(400, [{ code: 'invalid_input', detail, attr: 'rows' }], null);
}

/** Names fields of the only given step without their prefix. */
const atStep = (failure: ApiFailure): ApiFailure =>
  failure.with(
    failure.problems.map(({ attr, ...rest }) => {
      return { ...rest, attr: attr?.replace(/^configs__0__/, '') ?? null };
    }),
  );

interface Props {
  readonly lab: LabState;
  readonly title: string;
  /** The API's names of fields that show their errors outside the lab. */
  readonly shownElsewhere?: readonly string[];
  readonly children: ReactNode;
}

const sources = [
  ['newest', 'The newest rows of the source'],
  ['rows', 'Rows that I write'],
] as const;

export function Lab({ lab, title, shownElsewhere = [], children }: Props) {
  const { draft, change, busy, failure, result } = lab;
  const description = useDescription();
  const installation = description.data?.installation ?? null;
  const model = draft.model || (installation?.default_model ?? '');
  const models = modelChoices({ installation }, model);
  const form = useFocusOnProblem<HTMLFormElement>(failure);
  const { byField, rest } = problemsOf(failure, ['limit', 'rows', 'model', ...shownElsewhere]);
  const field = fieldsIn(draft, change, byField);
  const elsewhere = shownElsewhere.filter((attr) => byField.has(attr)).length;
  return (
    <section className="card panel lab" aria-label={title}>
      <h2>{title}</h2>
      {children}
      <form ref={form} onSubmit={onSubmit(lab.run)} noValidate>
        <div className="grid">
          <Choice {...field('source', 'Try it on')} choices={sources} />
          {models.length > 1 && (
            <Choice {...field('model', 'Model')} value={model} choices={models} />
          )}
          {draft.source === 'newest' && (
            <TextField
              {...field('limit', 'Number of rows')}
              input={{ type: 'number', min: 1, max: 100 }}
            />
          )}
        </div>
        {draft.source === 'rows' && (
          <CodeField
            {...field('rows', 'Rows')}
            placeholder='{"event": "signup", "properties": {"plan": "pro"}}'
            help="One JSON object per line, or a list of them."
          />
        )}
        <Failure failure={rest} />
        <div className="row">
          <button type="submit" aria-disabled={busy}>
            {busy ? 'Running…' : 'Run the lab'}
          </button>
          <FieldsToCorrect count={elsewhere} />
        </div>
      </form>
      <div aria-live="polite">{result && <LabResult result={result} />}</div>
    </section>
  );
}

/** Each row of the lab: what every step did to it, and the row before and after. */
function LabResult({ result }: { result: RowPreview }) {
  const { left_out: leftOut } = result;
  const trials = result.trace ?? [];
  if (trials.length === 0) return <p className="muted">There are no rows to try.</p>;
  const keptRows = trials.filter(({ result }) => result !== null).length;
  return (
    <>
      <p className="lab-sum">
        {plural(trials.length, 'row')} in, {formatCount(keptRows)} out.
      </p>
      <LeftOut sentence={leftOut} />
      <ol className="stack">
        {trials.map((trial, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no known key.
          <TriedRow key={index} trial={trial} number={index + 1} />
        ))}
      </ol>
    </>
  );
}

const fates = { kept: 'Kept', dropped: 'Dropped', rejected: 'Rejected' } as const;
const tones = { kept: 'is-Completed', dropped: 'is-paused', rejected: 'is-Failed' } as const;

function Fate({ fate }: Pick<TracedStep, 'fate'>) {
  return <span className={`badge ${tones[fate]}`}>{fates[fate]}</span>;
}

function TriedRow({ trial: { row, result, steps }, number }: { trial: Trial; number: number }) {
  return (
    <li className="tried">
      <h3 className="row">
        Row {number} <Fate fate={steps.at(-1)?.fate ?? 'kept'} />
      </h3>
      {steps.length === 0 && <p className="muted">The chain has no enabled step.</p>}
      <ol className="stack">
        {steps.map((traced) => (
          <TriedStep key={traced.step} traced={traced} />
        ))}
      </ol>
      <details>
        <summary>Whole row before and after</summary>
        <div className="grid">
          <WholeRow title="Before" row={row} />
          <WholeRow title="After" row={result} />
        </div>
      </details>
    </li>
  );
}

function TriedStep({ traced }: { traced: TracedStep }) {
  const { name, fate, error, changes, microseconds } = traced;
  return (
    <li>
      <p className="row">
        <strong>{name}</strong> <Fate fate={fate} />
        <small className="muted">{formatCount(microseconds)} µs</small>
      </p>
      {error !== null && <p className="bad-text small">{error}</p>}
      {changes.length > 0 && <Diff changes={changes} name={name} />}
      {changes.length === 0 && error === null && fate === 'kept' && (
        <p className="muted small">The row stays as it is.</p>
      )}
    </li>
  );
}

function Diff({ changes, name }: Pick<TracedStep, 'changes' | 'name'>) {
  return (
    <table className="diff small" aria-label={`Changes by ${name}`}>
      <Heads names={['Column or property', 'Before', 'After']} />
      <tbody>
        {changes.map(({ path, kind, before, after }) => (
          <tr key={path}>
            <th scope="row">
              <code>{path}</code>
            </th>
            <td>
              {kind === 'added' ? (
                <span className="muted">not there</span>
              ) : (
                <del>
                  <code>{JSON.stringify(before)}</code>
                </del>
              )}
            </td>
            <td>
              {kind === 'removed' ? (
                <span className="muted">removed</span>
              ) : (
                <ins>
                  <code>{JSON.stringify(after)}</code>
                </ins>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function WholeRow({ title, row }: { title: string; row: Trial['result'] }) {
  return (
    <div>
      <h4>{title}</h4>
      {row === null ? (
        <p className="muted">Not exported.</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard.
        <pre tabIndex={0}>{JSON.stringify(row, null, 2)}</pre>
      )}
    </div>
  );
}
