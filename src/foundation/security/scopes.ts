/** The permissions of a key. `:write` implies `:read`; `*` is everything. */
export const scopes = [
  'batch_export:read',
  'batch_export:write',
  'plugin:read',
  'plugin:write',
] as const;

export type Scope = (typeof scopes)[number];

export type GrantedScope = Scope | '*';

export function isGrantableScope(text: string): text is GrantedScope {
  return text === '*' || scopes.some((scope) => scope === text);
}

/** Whether a key with the scopes `granted` may do what needs `needed`. */
export function allows(granted: readonly string[], needed: Scope): boolean {
  if (granted.includes('*') || granted.includes(needed)) return true;
  return needed.endsWith(':read') && granted.includes(needed.replace(/:read$/, ':write'));
}
