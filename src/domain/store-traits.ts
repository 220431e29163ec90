/**
 * What a destination's store was found to keep to, by trying. A store that knows of a condition may
 * still ignore it, or refuse one that holds.
 */
export interface StoreTraits {
  /** A put with If-None-Match makes an object and never replaces one. */
  readonly ifNoneMatch: boolean;
  /** How an ETag must be written in the If-Match of a put; `none`: no form guards the object. */
  readonly ifMatch: 'quoted' | 'unquoted' | 'none';
  /** The same two conditions on the completion of an upload. */
  readonly completeIfNoneMatch: boolean;
  readonly completeIfMatch: boolean;
  /** The store checks a CRC32 of each part. */
  readonly checksums: boolean;
  /** An upload takes no part any more once it is completed. Else a late part changes the object. */
  readonly sealsUploads: boolean;
}

/** Traits as they were kept, maybe by a release that tried out less: null if one is missing. */
export function readTraits(kept: Partial<StoreTraits> | null): StoreTraits | null {
  const names = Object.keys(lacks) as (keyof StoreTraits)[];
  const isWhole = kept !== null && names.every((name) => kept[name] !== undefined);
  return isWhole ? (kept as StoreTraits) : null;
}

/** Whether a worker that lost its run can no longer put a manifest once a later one is current. */
export function fencesManifests({ ifNoneMatch, ifMatch }: StoreTraits): boolean {
  return ifNoneMatch && ifMatch !== 'none';
}

/** How long a probe is believed: a store may be replaced by another release of itself. */
export const traitsValidDays = 7;

/** What is weaker without each trait. */
const lacks: Readonly<Record<keyof StoreTraits, string>> = {
  ifNoneMatch:
    'The store does not keep to conditional writes (If-None-Match): only the lease keeps two workers on the first run of an interval apart.',
  ifMatch:
    'The store does not keep to conditional writes (If-Match): only the lease keeps two workers on a re-run apart.',
  completeIfNoneMatch:
    'The store does not keep to If-None-Match when it completes an upload: only the lease and the keys keep the files of two workers apart.',
  completeIfMatch:
    'The store does not keep to If-Match when it completes an upload: only the lease keeps two workers apart that replace a file in place.',
  checksums:
    'The store does not check a CRC32 of each part: the signature of each request guards its bytes.',
  sealsUploads:
    'The store takes parts for an upload that is already complete: an attempt that takes over a run sends its files again from the start.',
};

/** What a store does not keep to, each with a sentence on what is weaker for it. */
export function describeMissingTraits(
  traits: StoreTraits,
): readonly { readonly trait: keyof StoreTraits; readonly text: string }[] {
  const names = Object.keys(lacks) as (keyof StoreTraits)[];
  return names
    .filter((trait) => traits[trait] === false || traits[trait] === 'none')
    .map((trait) => ({ trait, text: lacks[trait] }));
}
