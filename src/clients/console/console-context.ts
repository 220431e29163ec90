import { createContext, useContext } from 'react';
import type { Me, Scope } from './api-types.ts';
import type { Client } from './client.ts';
import type { ApiDescription } from './form/openapi.ts';
import type { Resource } from './use-resource.ts';

/** What every page needs after sign-in. */
export interface ConsoleContext {
  readonly client: Client;
  readonly description: Resource<ApiDescription>;
  /** What the API says about the key; null until it has. */
  readonly me: Me | null;
  /** The scopes of the key; null until the API has said so. */
  readonly granted: readonly Scope[] | null;
  /** Whether the key is known to have the scope. */
  readonly may: (scope: Scope) => boolean;
  /** Shows a message; screen readers read it. */
  readonly say: (message: string) => void;
}

export const ConsoleContext = createContext<ConsoleContext | null>(null);

/** Only below a signed-in app. */
export function useConsole(): ConsoleContext {
  const context = useContext(ConsoleContext);
  if (!context) throw new Error('useConsole is used outside a signed-in app');
  return context;
}
