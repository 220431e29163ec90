/**
 * Routes of the page, in the part of its address after #: `#/<project id>/<route>?<query>`. Links begin with the
 * project of the current address. The query has the filters and the page of a list.
 */
export const tabs = {
  runs: 'Runs',
  coverage: 'Coverage',
  backfills: 'Backfills',
  logs: 'Logs',
  settings: 'Settings',
  changes: 'Changes',
  statements: 'Statements',
};
export type Tab = keyof typeof tabs;

/** Pages whose path is their name. */
const plainPages = ['new', 'notifications', 'customers'] as const;

export type Route =
  | { readonly page: 'exports' | 'transformations' | 'new-step' | (typeof plainPages)[number] }
  | { readonly page: 'step'; readonly stepId: number }
  | { readonly page: 'edit'; readonly exportId: string }
  | { readonly page: 'export'; readonly exportId: string; readonly tab: Tab }
  | { readonly page: 'run'; readonly exportId: string; readonly runId: string };

const projectPrefix = /^#\/([1-9]\d{0,9})(?=\/|\?|$)/;

/** The id of the project in an address; null if it has none. */
export function projectOf(hash: string): string | null {
  return projectPrefix.exec(hash)?.[1] ?? null;
}

export function pathIn(hash: string): string {
  return hash.split('?', 1)[0] ?? '';
}

/** The query of an address: what a list is filtered by, and its page. */
export function queryIn(hash: string): URLSearchParams {
  return new URLSearchParams(hash.slice(pathIn(hash).length));
}

/** Changes of a query; null or an empty text removes a parameter. */
export type QueryChanges = Readonly<Record<string, string | readonly string[] | null>>;

/** Changes the query of an address, and nothing else of it. */
export function withQuery(hash: string, changes: QueryChanges): string {
  const query = queryIn(hash);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of [value ?? ''].flat()) if (one !== '') query.append(name, one);
  }
  const path = pathIn(hash);
  return query.size > 0 ? `${path}?${query}` : path;
}

/** The route of an address; an unknown address is the list of exports. */
export function readRoute(hash: string): Route {
  const path = pathIn(hash).replace(projectPrefix, '#').replace(/^#\/?/, '');
  const [room, exportId, tab, runId] = path.split('/').map(decode);
  if (room === 'transformations') return chainRoute(exportId);
  const plain = plainPages.find((page) => page === room);
  if (plain) return { page: plain };
  if (room !== 'exports' || !exportId) return { page: 'exports' };
  if (tab === 'edit') return { page: 'edit', exportId };
  if (tab === 'runs' && runId) return { page: 'run', exportId, runId };
  return { page: 'export', exportId, tab: isTab(tab) ? tab : 'runs' };
}

function chainRoute(name: string | undefined): Route {
  if (name === 'new') return { page: 'new-step' };
  const isId = name !== undefined && /^[1-9]\d{0,9}$/.test(name);
  return isId ? { page: 'step', stepId: Number(name) } : { page: 'transformations' };
}

function isTab(text: string | undefined): text is Tab {
  return text !== undefined && Object.hasOwn(tabs, text);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}

/** @param project id; empty for an address without a project */
export function hrefOf(
  route: Route,
  project = projectOf(currentHash()) ?? '',
  query: QueryChanges = {},
): string {
  return withQuery(`#/${project === '' ? '' : `${project}/`}${pathOf(route)}`, query);
}

/** Empty in the tests of pure parts. */
export const currentHash = () =>
  (globalThis as { location?: { hash: string } }).location?.hash ?? '';

function pathOf(route: Route): string {
  if (route.page === 'exports') return '';
  if (route.page === 'new-step') return 'transformations/new';
  if (route.page === 'step') return `transformations/${route.stepId}`;
  if (!('exportId' in route)) return route.page;
  const base = `exports/${encodeURIComponent(route.exportId)}`;
  if (route.page === 'edit') return `${base}/edit`;
  if (route.page === 'run') return `${base}/runs/${encodeURIComponent(route.runId)}`;
  return `${base}/${route.tab}`;
}
