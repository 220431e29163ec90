import { invalid, Refusal } from '../../../foundation/domain/problem.ts';
import type { Api } from '../api.ts';

/** Names of PostHog's clients, and ours. docs/posthog.md shows all of them to users. */

export const posthogTag = 'Clients of PostHog';
const paths: readonly (readonly [string, string])[] = [['/api/environments/', '/api/projects/']];

/** Types of destinations. An answer has our name. */
const types: ReadonlyMap<string, string> = new Map([
  ['AwsS3', 'S3'],
  ['S3Compatible', 'S3'],
]);

export const otherTypes = [...types.keys()];

/** The path of a request under our name. */
export function renamedPath(url: string): string {
  const [other, own] = paths.find(([begins]) => url.startsWith(begins)) ?? ['', ''];
  return `${own}${url.slice(other.length)}`;
}

/** The other name of one of our paths; null if it has none. */
export function otherPath(url: string): string | null {
  const [other, own] = paths.find(([, begins]) => url.startsWith(begins)) ?? [];
  return own === undefined ? null : `${other}${url.slice(own.length)}`;
}

interface Destination {
  readonly type?: unknown;
  readonly config?: { readonly endpoint_url?: unknown } | null;
}

/** Gives a body our names of values, before it is checked: the type of its destination, and UTC for no timezone. */
export function renameValues(api: Api): void {
  api.addHook('preValidation', async ({ body, method, routeOptions }) => {
    const times = (body ?? {}) as { timezone?: unknown };
    if (times.timezone === null) times.timezone = 'UTC';
    const { destination, id } = (body ?? {}) as { destination?: Destination | null; id?: unknown };
    const type = types.get(String(destination?.type));
    if (!destination || type === undefined) return;
    const isSaved = id !== undefined || routeOptions.url?.includes('/:id') === true;
    const isWhole = method === 'POST' && !isSaved;
    refuseOtherStore(destination, isWhole);
    (body as { destination: unknown }).destination = { ...destination, type };
  });
}

/**
 * Each of the two names says where the bucket is. An address that says something else would send rows to another store.
 *
 * @param isWhole whether an endpoint_url that is left out is none; otherwise it keeps its value
 */
function refuseOtherStore({ type, config }: Destination, isWhole: boolean): void {
  if (typeof config !== 'object' || config === null) return;
  const { endpoint_url: address } = config;
  const isNone = address === null || address === '' || (isWhole && address === undefined);
  if (type === 'S3Compatible' && isNone) {
    throw wrongAddress(
      'S3Compatible is S3 at a store that is not AWS. Enter the address of the store, or send the type S3.',
    );
  }
  if (type === 'AwsS3' && typeof address === 'string' && address !== '' && !isOfAws(address)) {
    throw wrongAddress(
      'AwsS3 is S3 at AWS, and this address is not of AWS. Remove it, or send the type S3Compatible.',
    );
  }
}

function isOfAws(address: string): boolean {
  const host = URL.parse(address)?.hostname ?? '';
  return /(^|\.)(amazonaws\.com(\.cn)?|api\.aws)$/.test(host);
}

const wrongAddress = (detail: string) =>
  new Refusal(invalid('destination__config__endpoint_url', detail));
