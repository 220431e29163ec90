/** Who is signed in. Kept for this browser tab only, and gone with it. */
export interface Session {
  readonly key: string;
  /** A project's id, or `@current` for a key's only one. */
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
