/** The signed-in key. Only open tabs keep it. */
export interface Session {
  readonly key: string;
  /** The id of the project that was open last, or `operatorProject`. */
  readonly project: string;
}

/** In place of a project, for the key of an operator: it belongs to none. */
export const operatorProject = 'operator';

const item = 'sluice-session';

/**
 * Joins the tabs of this page in one browser: a new tab asks the others for their session, so the key is
 * never on disk, and ends with the tabs. Only pages of the same origin can listen.
 */
const channel = new BroadcastChannel(item);

export function readSession(): Session | null {
  try {
    return asSession(JSON.parse(sessionStorage.getItem(item) ?? 'null'));
  } catch {
    return null;
  }
}

export function storeSession(session: Session | null): void {
  if (session) sessionStorage.setItem(item, JSON.stringify(session));
  else sessionStorage.removeItem(item);
}

/** Asks the other tabs for their session; the first answer counts. @returns stops waiting */
export function askForSession(onSession: (session: Session) => void): () => void {
  const listen = ({ data }: MessageEvent<unknown>) => {
    const session = asSession(data);
    if (!session) return;
    stop();
    onSession(session);
  };
  const stop = () => channel.removeEventListener('message', listen);
  channel.addEventListener('message', listen);
  channel.postMessage('ask');
  return stop;
}

/** Gives the session to tabs that ask for it, and hears if another tab signs out. @returns stops both */
export function shareSession(session: Session, onSignOut: () => void): () => void {
  const answer = ({ data }: MessageEvent<unknown>) => {
    if (data === 'ask') channel.postMessage(session);
    if (data === 'sign-out') onSignOut();
  };
  channel.addEventListener('message', answer);
  return () => channel.removeEventListener('message', answer);
}

export function signOutOthers(): void {
  channel.postMessage('sign-out');
}

function asSession(value: unknown): Session | null {
  const { key, project } = (value ?? {}) as Partial<Record<keyof Session, unknown>>;
  return typeof key === 'string' && typeof project === 'string' ? { key, project } : null;
}
