import { type RefObject, useEffect, useRef } from 'react';
import { type ApiFailure, sortProblems } from '../api.ts';
import { plural } from '../numbers.ts';

interface FormProblems {
  readonly byField: ReadonlyMap<string, string>;
  /** Everything that no field of the form shows. */
  readonly rest: ApiFailure | null;
}

/** Sorts the problems of a request to the fields of its form, by the API's names. */
export function problemsOf(failure: ApiFailure | null, attrs: readonly string[]): FormProblems {
  const { byField, others } = sortProblems(failure?.problems ?? [], attrs);
  return { byField, rest: failure && others.length > 0 ? failure.with(others) : null };
}

/** For the element of a form: after each attempt that failed, a new object, the focus moves to its first invalid input. */
export function useFocusOnProblem<T extends HTMLElement>(
  attempt: object | null,
): RefObject<T | null> {
  const form = useRef<T>(null);
  useEffect(() => {
    if (attempt) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [attempt]);
  return form;
}

/** Asks to correct the fields that have an error. */
export function FieldsToCorrect({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <p className="bad-text" role="alert">
      Please correct {count === 1 ? 'one field' : `${count} fields`}.
    </p>
  );
}

interface Props {
  /** By the API's name of the field, which is the id of its input. */
  readonly byField: ReadonlyMap<string, string>;
  readonly labels: ReadonlyMap<string, string>;
  /** A new object for each attempt that failed: the focus moves here. */
  readonly attempt: object | null;
}

/**
 * Every problem of a form, with a link to its field. After each attempt that failed it opens the parts that hide a field with a problem,
 * and takes the focus. If all fields with problems are in such parts, the first of them has it.
 */
export function ProblemSummary({ byField, labels, attempt }: Props) {
  const box = useRef<HTMLElement>(null);
  const isShown = byField.size > 0;
  /** True if a field was chosen before the answer to the attempt came: the focus stays there. */
  const hasChosen = useRef(false);
  const inOrder = [...labels].filter(([attr]) => byField.has(attr));
  // biome-ignore lint/correctness/useExhaustiveDependencies: only an attempt moves the focus.
  useEffect(() => {
    if (!attempt) hasChosen.current = false;
    if (!attempt || !isShown) return;
    const fields = inOrder.map(([attr]) => document.getElementById(attr));
    for (const field of fields) field?.closest('details')?.setAttribute('open', '');
    if (hasChosen.current) return;
    const [first] = fields;
    if (first?.closest('details')) first.focus();
    else box.current?.focus();
  }, [attempt, isShown]);
  const choose = (attr: string) => {
    hasChosen.current = true;
    showField(attr);
  };
  if (!isShown) return null;
  return (
    <section
      ref={box}
      className="row alert is-Failed problems"
      aria-labelledby="problems-title"
      tabIndex={-1}
    >
      <div>
        <h2 id="problems-title">{plural(byField.size, 'field')} to correct</h2>
        <ul>
          {inOrder.map(([attr, label]) => (
            <li key={attr}>
              <button type="button" className="link" onClick={() => choose(attr)}>
                {label}
              </button>
              : {byField.get(attr)}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

/** Moves the focus to a field; opens the part of the form that hides it. */
function showField(attr: string): void {
  const field = document.getElementById(attr);
  field?.closest('details')?.setAttribute('open', '');
  field?.focus();
}

/** The fields of a form with something in them that is no value, by their ids. */
export function findIncomplete(form: HTMLFormElement | null): readonly string[] {
  const inputs = [...(form?.querySelectorAll('input') ?? [])];
  return inputs.filter(({ validity }) => validity.badInput).map(({ id }) => id);
}
