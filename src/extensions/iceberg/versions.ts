import { SluiceError } from '../../foundation/domain/errors.ts';
import { decodeMetadata, ownNames, type TableMetadata } from './metadata.ts';
import { metadataFolder, type TableObjects, type TablePlace } from './table-objects.ts';

export interface TableVersion {
  /** 0: there is no table yet. */
  readonly version: number;
  readonly table: TableMetadata | null;
  readonly hint: Hint;
}

/** The object that names the newest version, or one shortly before it. */
interface Hint {
  /** 0: there is none. */
  readonly version: number;
  readonly etag: string | null;
}

export const maxMetadataBytes = 16 * 1024 ** 2;

/** A hint that is further behind is no accident. */
const maxSteps = 1_000;

const hintKey = (place: TablePlace) => `${metadataFolder(place)}version-hint.text`;

export const versionName = (version: number): string => `v${version}.metadata.json`;

const versionKey = (place: TablePlace, version: number) =>
  `${metadataFolder(place)}${versionName(version)}`;

/**
 * Finds the newest version. The hint is written after the version that it names, so it may be behind.
 *
 * @throws SluiceError `destination.key_taken` if the table is not this export's, or not as Sluice wrote it;
 *   `destination.table_damaged` if a version is missing
 */
export async function readNewest(place: TablePlace, objects: TableObjects): Promise<TableVersion> {
  const start = await readStart(place, objects);
  const { hint } = start;
  let { version } = start;
  if (start.found === null) return { version, table: null, hint };
  let newest = start.found;
  for (let steps = 0; steps < maxSteps; steps += 1) {
    const next = await readVersion(place, objects, version + 1);
    if (!next) return { version, table: await decode(place, version, newest), hint };
    newest = next;
    version += 1;
  }
  throw new SluiceError('destination.table_damaged', `${hintKey(place)} is far behind`);
}

/** The version that the hint names; found is null if there is no table. */
async function readStart(place: TablePlace, objects: TableObjects) {
  for (let before = -1; ; ) {
    const hint = await readHint(place, objects);
    // Without the hint a version that is not the newest may be the first that is found.
    const version = hint.version === 0 ? await listNewest(place, objects) : hint.version;
    const metadata = version === 0 ? null : await readVersion(place, objects, version);
    if (metadata !== null || version === 0) return { hint, version, found: metadata };
    // While this worker was slow, others may have removed the version. Then the hint names a later one.
    if (version <= before) {
      const detail = `${versionKey(place, version)} is missing`;
      throw new SluiceError('destination.table_damaged', detail);
    }
    before = version;
  }
}

const readVersion = (place: TablePlace, objects: TableObjects, version: number) =>
  objects.read(versionKey(place, version), maxMetadataBytes);

async function decode(
  place: TablePlace,
  version: number,
  { bytes }: { readonly bytes: Buffer },
): Promise<TableMetadata> {
  const table = await decodeMetadata(bytes);
  const key = versionKey(place, version);
  if (!table) {
    const detail = `${key} is not as Sluice writes it: another program has changed the table`;
    throw new SluiceError('destination.table_damaged', detail);
  }
  const owner = table.properties[ownNames.owner];
  if (owner !== place.owner) {
    const whose = /^[0-9a-f-]{36}$/.test(owner ?? '') ? `the export ${owner}` : 'another export';
    const detail = `${key} is the Iceberg table of ${whose}. If you no longer need it, delete or move everything at its prefix`;
    throw new SluiceError('destination.key_taken', detail);
  }
  return table;
}

async function readHint(place: TablePlace, objects: TableObjects): Promise<Hint> {
  const hint = await objects.read(hintKey(place), 1_024);
  if (hint === null) return { version: 0, etag: null };
  const version = /^\d{1,15}\s*$/.test(hint.bytes.toString()) ? Number(hint.bytes) : 0;
  if (version > 0) return { version, etag: hint.etag };
  throw new SluiceError('destination.table_damaged', `${hintKey(place)} has no version`);
}

async function listNewest(place: TablePlace, objects: TableObjects): Promise<number> {
  let newest = 0;
  const folder = metadataFolder(place);
  for await (const { key } of objects.list(`${folder}v`)) {
    const [, version] = /^v(\d{1,15})\.metadata\.json$/.exec(key.slice(folder.length)) ?? [];
    newest = Math.max(newest, Number(version ?? 0));
  }
  return newest;
}

/**
 * Puts the version after `base`, then the hint, and reads the version back.
 *
 * @returns `taken` if another writer was first; `unclear` if the store does not say so, or says that it has
 *   taken the version and has something else; `overtaken` if the hint names a later one, so that only the newest
 *   version shows whether this one counts: it may be the number of an old one that was removed
 */
export async function putVersion(
  place: TablePlace,
  objects: TableObjects,
  base: TableVersion,
  table: TableMetadata,
  afterPut: () => Promise<void> | undefined,
): Promise<'done' | 'taken' | 'overtaken' | 'unclear'> {
  const version = base.version + 1;
  const body = Buffer.from(JSON.stringify(table));
  if (!(await objects.put(versionKey(place, version), body, null))) {
    const other = await readVersion(place, objects, version);
    return other && !other.bytes.equals(body) ? 'taken' : 'unclear';
  }
  await afterPut();
  const end = await putHint(place, objects, base.hint, version);
  if (end === 'overtaken') return end;
  const current = await readVersion(place, objects, version);
  return current?.bytes.equals(body) ? end : 'unclear';
}

/** Says whether the store refuses to replace an object: since its probe something else may be in its place. */
export async function keepsConditions(objects: TableObjects, key: string): Promise<boolean> {
  const bytes = Buffer.from('a store that keeps to conditions refuses this');
  return !(await objects.put(key, bytes, null));
}

/** Makes the hint name the version, if it names an earlier one. */
export async function putHint(
  place: TablePlace,
  objects: TableObjects,
  known: Hint,
  version: number,
): Promise<'done' | 'overtaken'> {
  let hint = known;
  for (let tried = 0; tried < maxSteps; tried += 1) {
    if (hint.version > version) return 'overtaken';
    if (hint.version === version) return 'done';
    if (await objects.put(hintKey(place), Buffer.from(`${version}`), hint.etag)) return 'done';
    hint = await readHint(place, objects);
  }
  throw new SluiceError('destination.conflict', hintKey(place));
}
