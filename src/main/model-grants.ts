import type { Config } from '../foundation/config/config.ts';
import type { SourcedModel } from '../foundation/config/models-file.ts';
import { findGrants } from '../rows/sources/index.ts';
import { addressNamesOf, findOfferedModels, loadModels, primaryUrlOf } from './models.ts';

export interface AddressGrants {
  readonly address: string;
  readonly role: string;
  /** In which database the statements are run, and as whom. */
  readonly about: string;
  /** Without their semicolons. */
  readonly statements: readonly string[];
}

/** @param findSource finds the address for models without their own @param onlyColumns grants no others */
export async function listGrants(
  config: Config,
  findSource: () => Promise<string>,
  onlyColumns: boolean,
): Promise<readonly AddressGrants[]> {
  const declared = loadModels(config);
  const needsShared = declared.some(({ sourceUrl }) => sourceUrl === null);
  const shared = needsShared ? await findSource() : '';
  const models = needsShared ? await findOfferedModels(config, declared, shared) : declared;
  const grants: AddressGrants[] = [];
  const urls = new Map<string, SourcedModel[]>();
  const primaries = new Map<string, string>();
  for (const one of models) {
    const url = one.sourceUrl ?? shared;
    urls.set(url, [...(urls.get(url) ?? []), one]);
    const primary = primaryUrlOf(config, one);
    if (primary !== null) primaries.set(primary, addressNamesOf(one).primaryName);
  }
  const add = async (url: string, address: string, own: readonly SourcedModel[]) => {
    const ownModels = own.map(({ model }) => model);
    const isPaired = primaries.size > 0;
    const { role, isReached, statements } = await findGrants(url, ownModels, {
      onlyColumns,
      isPaired,
    });
    const unseen = isReached
      ? ''
      : ' The role cannot log in yet, so run `sluice models check` afterwards.';
    const { host, database } = placeOf(url);
    const about = `role ${role}, to run in the database ${database} at ${host} as a superuser or the owner of the relations.${unseen}`;
    grants.push({ address, role, about, statements });
  };
  for (const [url, own] of urls) {
    const [first] = own;
    if (first) await add(url, addressNamesOf(first).addressName, own);
  }
  for (const [url, name] of primaries) {
    if (!urls.has(url)) await add(url, name, []);
  }
  return grants;
}

/** For people; never with the password. */
function placeOf(url: string): { readonly host: string; readonly database: string } {
  if (!URL.canParse(url)) return { host: 'its server', database: 'of the address' };
  const { hostname, port, pathname } = new URL(url);
  const database = decodeURIComponent(pathname.slice(1));
  return { host: `${hostname || 'its socket'}${port === '' ? '' : `:${port}`}`, database };
}
