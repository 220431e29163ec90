/** The findings of a probe. A store that accepts a condition may still ignore it, or refuse one that is true. */
export interface StoreTraits {
  /** A put with If-None-Match creates an object and never replaces one. */
  readonly ifNoneMatch: boolean;
  /** The form of an ETag in the If-Match of a put; `none`: no form protects the object. */
  readonly ifMatch: 'quoted' | 'unquoted' | 'none';
  /** True if the completion of an upload takes the same condition. */
  readonly completeIfNoneMatch: boolean;
  readonly completeIfMatch: boolean;
  readonly checksums: boolean;
  readonly parts: PartTraits;
}

/** The store's demands on the parts of an upload, as its refusals said. No probe finds it. */
export interface PartTraits {
  /** All parts but the last must have one size. */
  readonly equal: boolean;
  /** The number of parts that an upload may have; null: as many as the installation allows. */
  readonly most: number | null;
  /** The size that the largest file so far needs; null: the installation's. */
  readonly bytes: number | null;
}

export const usualParts: PartTraits = { equal: false, most: null, bytes: null };

/** Stored traits; null if one is missing, because an older release did not probe it. */
export function readTraits(kept: Partial<StoreTraits> | null): StoreTraits | null {
  const names = Object.keys(lacks) as Trait[];
  const isWhole = kept !== null && names.every((name) => kept[name] !== undefined);
  return isWhole ? { ...(kept as StoreTraits), parts: kept.parts ?? usualParts } : null;
}

/** Says whether the store refuses the manifest of a worker that lost its run, once a later one is current. */
export function fencesManifests({ ifNoneMatch, ifMatch }: StoreTraits): boolean {
  return ifNoneMatch && ifMatch !== 'none';
}

/** The time that the result of a probe is used: the store may be upgraded. */
export const traitsValidDays = 7;

type Trait = Exclude<keyof StoreTraits, 'parts'>;

/** The weakness without each trait. */
const lacks: Readonly<Record<Trait, string>> = {
  ifNoneMatch:
    'The store does not support conditional writes (If-None-Match): only the lease prevents two workers from writing the first run of an interval.',
  ifMatch:
    'The store does not support conditional writes (If-Match): only the lease prevents two workers from writing a re-run.',
  completeIfNoneMatch:
    'The store does not support If-None-Match when it completes an upload: only the lease and the keys keep the files of two workers separate.',
  completeIfMatch:
    'The store does not support If-Match when it completes an upload: only the lease prevents two workers from replacing the same file.',
  checksums:
    'The store does not check a CRC32 of each part: only the signature of each request protects its bytes.',
};

/** The traits that a store lacks, each with a sentence that says what is weaker. */
export function describeMissingTraits(
  traits: StoreTraits,
): readonly { readonly trait: Trait; readonly text: string }[] {
  const names = Object.keys(lacks) as Trait[];
  return names
    .filter((trait) => traits[trait] === false || traits[trait] === 'none')
    .map((trait) => ({ trait, text: lacks[trait] }));
}
