import { type ReactNode, useId } from 'react';
import { CopyText } from './copy-text.tsx';
import { useModal } from './dialog.tsx';

/** For a secret whose answer did not arrive. */
export const lostSecret = 'Its secret was in an answer that did not arrive. Make a new secret.';

interface Props {
  /** Whose secret it is. */
  readonly name: string;
  readonly secret: string;
  /** The kind of secret, and its purpose. */
  readonly what?: 'secret' | 'key';
  readonly children?: ReactNode;
  readonly onClose: () => void;
}

/** Shows a secret that no later answer has, until the reader closes it. */
export function SecretDialog({ name, secret, what = 'secret', children, onClose }: Props) {
  const modal = useModal(onClose);
  const titleId = useId();
  return (
    <dialog {...modal} aria-labelledby={titleId}>
      <div className="stack">
        <h2 id={titleId}>
          The {what} of {name}
        </h2>
        {children ?? <p>Your receiver checks signatures with it. It is shown only now: copy it.</p>}
        <p className="secret">
          <CopyText what={what} text={secret} />
        </p>
        <div className="row end">
          <button type="button" className="primary" onClick={onClose}>
            Done
          </button>
        </div>
      </div>
    </dialog>
  );
}
