import { type RefObject, useEffect, useRef } from 'react';
import { ApiFailure } from '../api.ts';
import { sortProblems } from '../problems.ts';

export interface FormProblems {
  readonly byField: ReadonlyMap<string, string>;
  /** Everything that no field of the form shows. */
  readonly rest: ApiFailure | null;
}

/** Sorts the problems of a request to the fields of its form, by the API's names. */
export function problemsOf(failure: ApiFailure | null, attrs: readonly string[]): FormProblems {
  const { byField, others } = sortProblems(failure?.problems ?? [], attrs);
  const rest =
    failure && others.length > 0 ? new ApiFailure(failure.status, others, failure.requestId) : null;
  return { byField, rest };
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
