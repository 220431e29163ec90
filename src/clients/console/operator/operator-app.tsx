import { useMemo } from 'react';
import { forgetDrafts } from '../kept-drafts.ts';
import { Logo } from '../parts/logo.tsx';
import { ServiceBanner } from '../parts/service-banner.tsx';
import { signOutOthers } from '../session.ts';
import { CausesPage } from './causes-page.tsx';
import { createOperatorClient } from './operator-client.ts';

interface Props {
  readonly operatorKey: string;
  readonly onSignOut: (reason?: string) => void;
}

/** The page of an operator: all customers, by what is wrong. */
export function OperatorApp({ operatorKey, onSignOut }: Props) {
  const client = useMemo(
    () => createOperatorClient(operatorKey, () => onSignOut('The API key is no longer accepted.')),
    [operatorKey, onSignOut],
  );
  return (
    <>
      <header className="top">
        <span className="brand">
          <Logo />
          Sluice
        </span>
        <span className="muted">All customers</span>
        <a href="/admin/queues">Queues</a>
        <button
          type="button"
          className="quiet"
          onClick={() => {
            signOutOthers();
            forgetDrafts(sessionStorage);
            onSignOut();
          }}
        >
          Sign out
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <ServiceBanner />
        <CausesPage client={client} />
      </main>
    </>
  );
}
