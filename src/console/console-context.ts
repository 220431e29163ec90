import { createContext, useContext } from 'react';
import type { Client } from './client.ts';
import type { ApiDescription } from './form/openapi.ts';
import type { Resource } from './use-resource.ts';

/** What every page of a signed-in operator stands on. */
export interface ConsoleContext {
  readonly client: Client;
  readonly description: Resource<ApiDescription>;
  /** Says what was done, for all to see and for screen readers to read out. */
  readonly say: (message: string) => void;
}

export const ConsoleContext = createContext<ConsoleContext | null>(null);

/** Only below a signed-in app. */
export function useConsole(): ConsoleContext {
  const context = useContext(ConsoleContext);
  if (!context) throw new Error('there is nobody signed in');
  return context;
}
