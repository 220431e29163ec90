import type { ManifestTag, StoreTraits } from '../destination.ts';

/** The condition under which a put succeeds; null for an unconditional put. */
export type PutCondition = { readonly IfNoneMatch: '*' } | { readonly IfMatch: string } | null;

export function conditionHeaders(condition: PutCondition): Readonly<Record<string, string>> {
  if (condition === null) return {};
  return 'IfMatch' in condition
    ? { 'if-match': condition.IfMatch }
    : { 'if-none-match': condition.IfNoneMatch };
}

/** The forms of an ETag in If-Match. Ceph RGW 16 answers 412 to the right tag in its quotes. */
export type TagForm = 'quoted' | 'unquoted';

export function tagInForm(tag: string, form: TagForm): string {
  const bare = tag.replaceAll('"', '');
  return form === 'quoted' ? `"${bare}"` : bare;
}

export function isSameTag(one: ManifestTag, other: ManifestTag): boolean {
  return one?.replaceAll('"', '') === other?.replaceAll('"', '');
}

/** The condition of a completion; null for none. @param expected undefined: anything is replaced */
export function completionCondition(
  expected: ManifestTag | undefined,
  traits: StoreTraits | null,
): PutCondition {
  if (expected === undefined) return null;
  if (expected === null) return (traits?.completeIfNoneMatch ?? true) ? { IfNoneMatch: '*' } : null;
  return (traits?.completeIfMatch ?? true) ? conditionFor(expected, traits) : null;
}

/** Null: the key must be free. Before the first probe a store is assumed to behave like S3. */
export function conditionFor(expected: ManifestTag, traits: StoreTraits | null): PutCondition {
  if (expected === null) return (traits?.ifNoneMatch ?? true) ? { IfNoneMatch: '*' } : null;
  const form = traits?.ifMatch ?? 'quoted';
  return form === 'none' ? null : { IfMatch: tagInForm(expected, form) };
}
