import type { ReactNode } from 'react';
import { signOutOthers } from '../session.ts';
import { focusMain } from '../use-route.ts';
import { ClockSwitch } from './time-text.tsx';
import { readServiceFaults } from '../service-faults.ts';
import { useResource } from '../use-api.ts';

interface Props {
  readonly home: string;
  /** Of the places, for screen readers. */
  readonly label: string;
  /** The parts of the page. One alone is not shown. */
  readonly places: readonly (readonly [name: string, href: string, isOpen: boolean])[];
  readonly children?: ReactNode;
  readonly onSignOut: () => void;
}

export function TopBar({ home, label, places, children, onSignOut }: Props) {
  const signOut = () => {
    signOutOthers();
    onSignOut();
  };
  return (
    <>
      <button type="button" className="skip" onClick={focusMain}>
        Skip to the content
      </button>
      <header className="top">
        <a className="brand" href={home}>
          <Logo />
          Sluice
        </a>
        {places.length > 1 && (
          <nav className="places" aria-label={label}>
            {places.map(([name, href, isOpen]) => (
              <a key={name} href={href} aria-current={isOpen ? 'page' : undefined}>
                {name}
              </a>
            ))}
          </nav>
        )}
        <ClockSwitch />
        {children}
        <button type="button" className="quiet" onClick={signOut}>
          Sign out
        </button>
      </header>
    </>
  );
}

/** Faults of the whole service, such as that no worker is alive; nothing if all is well. */
export function ServiceBanner() {
  const { data } = useResource({
    key: 'readyz',
    load: async (signal) => readServiceFaults(await (await fetch('/readyz', { signal })).json()),
    pollMs: () => 15_000,
  });
  if (!data || data.length === 0) return null;
  return (
    <section className="row alert is-paused" aria-label="State of the service">
      <div>
        <p>
          <strong>The service is degraded.</strong> Runs may start late.
        </p>
        {data.map((fault) => (
          <p key={fault}>{fault}</p>
        ))}
      </div>
    </section>
  );
}

export function Logo() {
  return (
    <svg className="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path className="logo-gate" d="M9 7v18M23 7v18M13 8h6v7h-6z" />
      <path
        className="logo-water"
        d="M12.500 20.500q1.750-1.800 3.500 0t3.500 0M12.500 24.500q1.750-1.800 3.500 0t3.500 0"
      />
    </svg>
  );
}
