/**
 * Routes of the page, in the part of its address after #: `#/<project id>/<route>`. Links begin with the
 * project of the current address.
 */
export const tabs = {
  runs: 'Runs',
  coverage: 'Coverage',
  charts: 'Charts',
  backfills: 'Backfills',
  logs: 'Logs',
  settings: 'Settings',
};
export type Tab = keyof typeof tabs;

export type Route =
  | { readonly page: 'exports' }
  | { readonly page: 'new' }
  | { readonly page: 'transformations' }
  | { readonly page: 'notifications' }
  | { readonly page: 'new-step' }
  | { readonly page: 'step'; readonly stepId: number }
  | { readonly page: 'edit'; readonly exportId: string }
  | { readonly page: 'export'; readonly exportId: string; readonly tab: Tab }
  | { readonly page: 'run'; readonly exportId: string; readonly runId: string };

const projectPrefix = /^#\/([1-9]\d{0,9})(?=\/|$)/;

/** The id of the project in an address; null if it has none. */
export function projectOf(hash: string): string | null {
  return projectPrefix.exec(hash)?.[1] ?? null;
}

/** The route of an address; an unknown address is the list of exports. */
export function readRoute(hash: string): Route {
  const path = hash.replace(projectPrefix, '#').replace(/^#\/?/, '');
  const [room, exportId, tab, runId] = path.split('/').map(decode);
  if (room === 'new') return { page: 'new' };
  if (room === 'notifications') return { page: 'notifications' };
  if (room === 'transformations') return chainRoute(exportId);
  if (room !== 'exports' || !exportId) return { page: 'exports' };
  if (tab === 'edit') return { page: 'edit', exportId };
  if (tab === 'runs' && runId) return { page: 'run', exportId, runId };
  return { page: 'export', exportId, tab: isTab(tab) ? tab : 'runs' };
}

function chainRoute(place: string | undefined): Route {
  if (place === 'new') return { page: 'new-step' };
  const isId = place !== undefined && /^[1-9]\d{0,9}$/.test(place);
  return isId ? { page: 'step', stepId: Number(place) } : { page: 'transformations' };
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

/** The address of a route. @param project id; empty for an address without a project */
export function hrefOf(route: Route, project = projectOf(currentHash()) ?? ''): string {
  return `#/${project === '' ? '' : `${project}/`}${pathOf(route)}`;
}

/** Empty in the tests of pure parts. */
const currentHash = () => (globalThis as { location?: { hash: string } }).location?.hash ?? '';

function pathOf(route: Route): string {
  if (route.page === 'exports') return '';
  if (route.page === 'new') return 'new';
  if (route.page === 'transformations') return 'transformations';
  if (route.page === 'notifications') return 'notifications';
  if (route.page === 'new-step') return 'transformations/new';
  if (route.page === 'step') return `transformations/${route.stepId}`;
  const base = `exports/${encodeURIComponent(route.exportId)}`;
  if (route.page === 'edit') return `${base}/edit`;
  if (route.page === 'run') return `${base}/runs/${encodeURIComponent(route.runId)}`;
  return `${base}/${route.tab}`;
}
