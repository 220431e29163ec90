/** Why a request is refused, in the words of the contract's error body. */
export interface Problem {
  readonly code: ProblemCode;
  readonly detail: string;
  /** The field, nested names joined by `__`; null where there is none. */
  readonly attr: string | null;
}

export type ProblemCode =
  | 'required'
  | 'null'
  | 'blank'
  | 'invalid_choice'
  | 'invalid_input'
  | 'does_not_exist'
  | 'incorrect_type'
  | 'max_length'
  | 'min_value'
  | 'max_value'
  | 'not_found'
  | 'conflict'
  | 'throttled';

/** What a use case answers: its result, or every reason why not. A refusal changed nothing. */
export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export function done<T>(value: T): Outcome<T> {
  return { ok: true, value };
}

export function refused(...problems: readonly Problem[]): Outcome<never> {
  return { ok: false, problems };
}

/** The record went away between the look and the lock. */
export const gone: Outcome<never> = refused({
  code: 'not_found',
  detail: 'Not found.',
  attr: null,
});
