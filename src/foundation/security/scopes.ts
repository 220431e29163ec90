/** The permissions of a key. `:write` implies `:read`; `*` is everything. Only `file:read` and `*` show delivered rows. */
export const scopes = [
  'batch_export:read',
  'batch_export:write',
  'file:read',
  'plugin:read',
  'plugin:write',
] as const;

/** The permissions of an operator's key. It belongs to no organization and has no other. */
export const operatorScopes = ['operator:read', 'operator:write'] as const;

export type OperatorScope = (typeof operatorScopes)[number];
export type Scope = (typeof scopes)[number] | OperatorScope;

export const isOperatorScope = (scope: string): scope is OperatorScope =>
  operatorScopes.some((known) => known === scope);

/** Says whether a key with the scopes `granted` may do what needs `needed`. */
export function allows(granted: readonly string[], needed: Scope): boolean {
  if (granted.includes('*') || granted.includes(needed)) return true;
  return needed.endsWith(':read') && granted.includes(needed.replace(/:read$/, ':write'));
}
