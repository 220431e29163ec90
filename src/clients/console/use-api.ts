import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { Me, Scope } from './api-types.ts';
import { type Api, ApiFailure, connectApi } from './api.ts';
import { type ApiDescription, readDescription } from './form/openapi.ts';

/** All that every page needs after sign-in. */
export interface ConsoleContext {
  readonly api: Api;
  /** The answer of the API about the key; null until it came. */
  readonly me: Me | null;
  /** The scopes of the key; null until the API has said so. */
  readonly granted: readonly Scope[] | null;
  /** True if the key is known to have the scope. */
  readonly may: (scope: Scope | 'operator:write') => boolean;
}

export const ConsoleContext = createContext<ConsoleContext | null>(null);

export function useConsole(): ConsoleContext {
  const context = useContext(ConsoleContext);
  if (!context) throw new Error('useConsole is used outside a signed-in app');
  return context;
}

/** The API of a project for a key, until the key is no longer accepted. */
export const useApi = (key: string, project: string, onSignOut: (reason: string) => void): Api =>
  useMemo(
    () => connectApi(key, project, () => onSignOut('The API key is no longer accepted.')),
    [key, project, onSignOut],
  );

/** Hundreds of kilobytes that only forms need, so each session loads them once, when it opens the first form. */
const descriptions = new WeakMap<Api, Promise<ApiDescription>>();

/** The fields of the API, and the choices of this installation. */
export function useDescription(): Resource<ApiDescription> {
  const { api } = useConsole();
  const load = () => {
    const earlier = descriptions.get(api);
    if (earlier) return earlier;
    const described = describe(api);
    descriptions.set(api, described);
    described.catch(() => descriptions.delete(api));
    return described;
  };
  return useResource({ key: 'description', load, pollMs: (data) => (data ? null : 10_000) });
}

async function describe(api: Api): Promise<ApiDescription> {
  const [document, installation] = await Promise.all([
    api.send('get', '/api/openapi.json', {}),
    api.get('/api/capabilities', {}),
  ]);
  return readDescription(document as object, installation);
}

/** Shows a message; screen readers read it. With `cancel` it has a button for that, and stays longer. */
export type Say = (message: string, cancel?: () => Promise<unknown>) => void;

/** Says nothing outside `Toasts`. */
export const SayContext = createContext<Say>(() => {});

export const useSay = (): Say => useContext(SayContext);

/** Reported after an action of the reader: what the page polls is loaded again at once. */
const changes = new EventTarget();
const announceChange = () => changes.dispatchEvent(new Event('change'));

export interface Resource<T> {
  /** The last answer; it stays until the next one. Null before the first, and if the thing does not exist. */
  readonly data: T | null;
  /** Why the last request failed; null after a success. */
  readonly failure: ApiFailure | null;
  readonly reload: () => void;
}

interface Options<T> {
  readonly load: (signal: AbortSignal) => Promise<T>;
  /** Identifies the resource. A new key drops the old answer. */
  readonly key: string;
  /** A change loads it again, and keeps the old answer until then. */
  readonly version?: string;
  /** Milliseconds until it is loaded again; null: never. */
  readonly pollMs?: (data: T | null) => number | null;
}

interface State<T> {
  readonly key: string;
  readonly data: T | null;
  readonly failure: ApiFailure | null;
}

/** After an action its effect shows at once, although a worker has to do something first. */
const soonMs = 2_000;
const soonTimes = 3;
/** Minimum delay after a failure, so that the page does not burden a service in trouble. */
const failureMs = 10_000;

/** Loads a resource of the API, and polls it while the page is visible. What is polled is also loaded again after each action. */
export function useResource<T>({
  load,
  key,
  version,
  pollMs = () => null,
}: Options<T>): Resource<T> {
  const [state, setState] = useState<State<T>>({ key, data: null, failure: null });
  const [asked, setAsked] = useState(0);
  const latest = useRef({ load, pollMs });
  latest.current = { load, pollMs };
  const soon = useRef(0);
  const reload = useCallback(() => setAsked((count) => count + 1), []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of `asked` or `version` loads again.
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let data: T | null = null;
    let failed = false;

    const wait = () => {
      const delay = latest.current.pollMs(data);
      if (delay === null || abort.signal.aborted) return;
      const polls = soon.current > 0 ? Math.min(delay, soonMs) : delay;
      soon.current = Math.max(0, soon.current - 1);
      timer = setTimeout(ask, failed ? Math.max(delay, failureMs) : polls);
    };
    const ask = () => {
      clearTimeout(timer);
      if (document.hidden) return;
      latest.current
        .load(abort.signal)
        .then((answer) => {
          if (abort.signal.aborted) return;
          data = answer;
          failed = false;
          setState({ key, data, failure: null });
        })
        .catch((error: unknown) => {
          if (abort.signal.aborted) return;
          failed = true;
          const failure = toFailure(error);
          // A thing that does not exist any more is not shown, with buttons for it.
          const keeps = failure.status !== 404;
          setState((last) => ({
            key,
            data: keeps && last.key === key ? last.data : null,
            failure,
          }));
        })
        .finally(wait);
    };
    ask();
    document.addEventListener('visibilitychange', ask);
    const follow = () => {
      if (latest.current.pollMs(data) === null) return;
      soon.current = soonTimes;
      reload();
    };
    changes.addEventListener('change', follow);
    return () => {
      changes.removeEventListener('change', follow);
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', ask);
    };
  }, [key, version, asked, reload]);

  const isCurrent = state.key === key;
  return { data: isCurrent ? state.data : null, failure: isCurrent ? state.failure : null, reload };
}

function toFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ApiFailure(0, [{ code: 'error', detail, attr: null }], null);
}

export interface Action<A extends readonly unknown[]> {
  /** Does nothing while it is busy. */
  readonly run: (...args: A) => Promise<void>;
  /** For `aria-disabled` of its button: one that is disabled would lose the focus. */
  readonly busy: boolean;
  readonly failure: ApiFailure | null;
  readonly clear: () => void;
}

/**
 * An action of the operator: whether it is running, and why it failed. What the page polls is loaded again after it, also if it failed.
 *
 * @param work a text that it returns is said
 */
export function useAction<A extends readonly unknown[]>(
  work: (...args: A) => Promise<unknown>,
): Action<A> {
  const say = useSay();
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiFailure | null>(null);
  const run = async (...args: A) => {
    if (busy) return;
    setBusy(true);
    setFailure(null);
    try {
      const said = await work(...args);
      if (typeof said === 'string') say(said);
      announceChange();
    } catch (error) {
      const failed = toFailure(error);
      setFailure(failed);
      // The page may show an old state, or the change was made although its answer did not arrive.
      if (failed.status !== 400) announceChange();
    } finally {
      setBusy(false);
    }
  };
  return { run, busy, failure, clear: () => setFailure(null) };
}
