import type { ReactNode } from 'react';
import { signOutOthers } from '../session.ts';
import { focusMain } from '../use-focus-on-page.ts';
import { Logo } from './logo.tsx';
import { ClockSwitch } from './time-text.tsx';

interface Props {
  /** The address behind the name. */
  readonly home: string;
  readonly nav: ReactNode;
  /** The content before the button to sign out. */
  readonly children?: ReactNode;
  readonly onSignOut: () => void;
}

export function TopBar({ home, nav, children, onSignOut }: Props) {
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
        {nav}
        <ClockSwitch />
        {children}
        <button type="button" className="quiet" onClick={signOut}>
          Sign out
        </button>
      </header>
    </>
  );
}
