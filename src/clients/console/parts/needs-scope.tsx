import type { ReactNode } from 'react';
import type { Scope } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { Loading } from './notice.tsx';

interface Props {
  readonly scope: Scope;
  readonly children: ReactNode;
}

/** Shows a form only to a key that can use it. */
export function NeedsScope({ scope, children }: Props) {
  const { granted, may } = useConsole();
  if (may(scope)) return children;
  if (granted === null) return <Loading />;
  return (
    <p className="muted" role="status">
      This needs an API key with the scope <code>{scope}</code>.
    </p>
  );
}
