/** The signed-in key. It is kept for this browser tab only. */
export interface Session {
  readonly key: string;
  /** The id of a project, or `@current` if the key has only one. */
  readonly project: string;
}

const item = 'sluice-session';

export function readSession(): Session | null {
  try {
    const { key, project } = JSON.parse(sessionStorage.getItem(item) ?? 'null') ?? {};
    return typeof key === 'string' && typeof project === 'string' ? { key, project } : null;
  } catch {
    return null;
  }
}

export function storeSession(session: Session | null): void {
  if (session) sessionStorage.setItem(item, JSON.stringify(session));
  else sessionStorage.removeItem(item);
}
