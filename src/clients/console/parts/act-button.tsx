import type { ButtonHTMLAttributes } from 'react';
import type { Action } from '../use-action.ts';
import { Failure } from './notice.tsx';

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly act: Action<readonly []>;
}

/** A button that does something at once, and shows why the API refused. */
export function ActButton({ act, ...button }: Props) {
  return (
    <>
      <button type="button" aria-disabled={act.busy} onClick={() => void act.run()} {...button} />
      <Failure failure={act.failure} />
    </>
  );
}
