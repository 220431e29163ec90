import type { RowPreview, TracedStep, Trial } from '../api-types.ts';
import { formatCount, plural } from '../numbers.ts';
import { LeftOut } from './sample.tsx';
import { Heads } from './scrolled-table.tsx';

/** Each row of the lab: what every step did to it, and the row before and after. */
export function LabResult({ result }: { result: RowPreview }) {
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
