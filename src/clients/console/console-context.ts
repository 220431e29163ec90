import { createContext, useCallback, useContext, useEffect, useMemo, useState } from 'react';
import type { Me, Scope } from './api-types.ts';
import type { Api } from './api.ts';
import { type ApiDescription, readDescription } from './form/openapi.ts';
import { type Resource, useResource } from './use-resource.ts';

/** All that every page needs after sign-in. */
export interface ConsoleContext {
  readonly api: Api;
  /** Use `useDescription`: it is loaded for the first page that needs it. */
  readonly described: Resource<ApiDescription | null>;
  readonly loadDescription: () => void;
  /** The answer of the API about the key; null until it came. */
  readonly me: Me | null;
  /** The scopes of the key; null until the API has said so. */
  readonly granted: readonly Scope[] | null;
  /** True if the key is known to have the scope. */
  readonly may: (scope: Scope) => boolean;
}

export const ConsoleContext = createContext<ConsoleContext | null>(null);

/** Only below a signed-in app. */
export function useConsole(): ConsoleContext {
  const context = useContext(ConsoleContext);
  if (!context) throw new Error('useConsole is used outside a signed-in app');
  return context;
}

/** The fields of the API, and the choices of this installation; loaded from the first use on. */
export function useDescription(): Resource<ApiDescription | null> {
  const { described, loadDescription } = useConsole();
  useEffect(loadDescription, [loadDescription]);
  return described;
}

/** The part of the context that has the description of the API. */
export function useApiDescription(api: Api): Pick<ConsoleContext, 'described' | 'loadDescription'> {
  const [isNeeded, setIsNeeded] = useState(false);
  const loadDescription = useCallback(() => setIsNeeded(true), []);
  const described = useResource({
    key: `description ${isNeeded}`,
    // Hundreds of kilobytes that only forms need.
    load: async (signal) => {
      if (!isNeeded) return null;
      const [document, installation] = await Promise.all([
        api.send('get', '/api/openapi.json', {}, undefined, signal),
        api.get('/api/capabilities', {}, signal),
      ]);
      return readDescription(document as object, installation);
    },
    pollMs: (data) => (data || !isNeeded ? null : 10_000),
  });
  return useMemo(() => ({ described, loadDescription }), [described, loadDescription]);
}
