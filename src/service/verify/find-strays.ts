import type { Destination } from '../../rows/destinations/destination.ts';
import { SluiceError } from '../../foundation/domain/errors.ts';
import { keysOfTemplates, readKey } from '../../foundation/domain/file-name.ts';
import {
  isMarkerKey,
  manifestKey as keyOfManifest,
  rightsToRemove,
  stemsOfKey,
} from '../../foundation/domain/object-keys.ts';
import { readManifestAt } from '../../rows/pipeline/manifest.ts';
import type { Sql } from '../../state/store/database/database.ts';
import {
  findKnownKeys,
  isOfOurHistory,
  isUploadKnown,
  listWriters,
} from '../../state/store/intervals/verify-queries.ts';
import { counted } from './finding.ts';
import type { FolderOwner } from './places.ts';

export interface StrayPlace {
  readonly destination: Destination;
  /** Without a slash at the end; `''`: all keys. */
  readonly folders: readonly string[];
  readonly fileNames: readonly string[];
  /** This export, at the versions of its destination that are at this place. */
  readonly own: readonly FolderOwner[];
  /** All exports that have this place, at their versions of it. */
  readonly all: readonly FolderOwner[];
  /** True if the destination of this export was changed since then: its newest files may be here, and `own` does not know. */
  readonly hasMoved: () => Promise<boolean>;
}

export interface Strays {
  /** Files and uploads of uncommitted generations, which Sluice removes. */
  readonly leftovers: number;
  /** Files and uploads of intervals that a run is writing. */
  readonly beingWritten: number;
  readonly leftOut: readonly string[];
}

/** Sluice makes no key with these, and PostgreSQL cannot store them. */
const unstorable = /[\0\p{Cs}]/u;

const movedMeanwhile =
  'strays were not looked for: the destination was changed during the verification. Verify again';

const mostListed = 1_000_000;

const batch = 500;

/** I4: a current manifest names every object of ours, and every upload is known. A stray is looked for again: its run may have ended. */
export async function findStrays(
  sql: Sql,
  place: StrayPlace,
  report: (detail: string) => void,
): Promise<Strays> {
  const search = new StraySearch(sql, place, report);
  for (const folder of place.folders) {
    const prefix = folder === '' ? '' : `${folder}/`;
    await search.attempt('strays', () => search.lookAtFiles(prefix));
    await search.attempt('unfinished uploads', () => search.lookAtUploads(prefix));
  }
  search.nameLeft();
  return search;
}

class StraySearch implements Strays {
  leftovers = 0;
  beingWritten = 0;
  readonly leftOut: string[] = [];
  readonly #sql: Sql;
  readonly #place: StrayPlace;
  readonly #report: (detail: string) => void;
  readonly #manifests: ManifestNames;
  /** A key that Sluice would make for the export. */
  readonly #ourKey: RegExp;
  readonly #replaced = new Set<string>();
  readonly #markers = new Set<string>();

  constructor(sql: Sql, place: StrayPlace, report: (detail: string) => void) {
    this.#sql = sql;
    this.#place = place;
    this.#report = report;
    this.#manifests = new ManifestNames(sql, place.destination, report);
    this.#ourKey = keysOfTemplates(place.fileNames);
  }

  /** A right that the credentials need not have never hides the rest. */
  async attempt(what: string, look: () => Promise<boolean>): Promise<void> {
    try {
      if (await look()) return;
      this.#leaveOut(`${what} were looked for among the first ${mostListed} objects only`);
    } catch (error) {
      const reason = error instanceof SluiceError ? reasonOf(error) : null;
      if (reason === null) throw error;
      // Who may not list objects is not expected to list uploads.
      const isSaid = this.leftOut.some((text) => text.endsWith(reason));
      if (!isSaid) this.#leaveOut(`${what} were not looked for: ${reason}`);
    }
  }

  /** Names what a reader that lists the prefix sees too: a person may have to remove it, or to grant a right. */
  nameLeft(): void {
    const rights = `Sluice tries again to remove them, and needs ${rightsToRemove} there`;
    if (this.#replaced.size > 0) {
      const files = counted(this.#replaced.size, 'replaced file');
      this.#leaveOut(
        `${files} still there beside the current ones: ${named(this.#replaced)}. ${rights}`,
      );
    }
    if (this.#markers.size > 0) {
      const markers = counted(this.#markers.size, 'object');
      this.#leaveOut(
        `${markers} of tests of the store still there: ${named(this.#markers)}. A test in progress removes its own. A later one removes them a day later, and needs s3:DeleteObject there`,
      );
    }
  }

  #isOurs(key: string): boolean {
    return this.#ourKey.test(key) && !unstorable.test(key);
  }

  #leaveOut(text: string): void {
    if (!this.leftOut.includes(text)) this.leftOut.push(text);
  }

  /** @returns false if there are too many */
  async lookAtFiles(prefix: string): Promise<boolean> {
    let listed = 0;
    let keys: string[] = [];
    for await (const { key } of this.#place.destination.listFiles(prefix)) {
      listed += 1;
      if (listed > mostListed) break;
      if (this.#isOurs(key)) keys.push(key);
      else if (isMarkerKey(key)) this.#markers.add(key);
      if (keys.length < batch) continue;
      await this.#lookAtKeys(keys);
      keys = [];
    }
    await this.#lookAtKeys(keys);
    return listed <= mostListed;
  }

  async lookAtUploads(prefix: string): Promise<boolean> {
    const { destination } = this.#place;
    let listed = 0;
    for await (const { key, uploadId } of destination.listUploads(prefix)) {
      listed += 1;
      if (listed > mostListed) return false;
      if (!this.#isOurs(key) || (await this.#isUploadKnown(key))) continue;
      if (!(await hasUpload(destination, key, uploadId)) || (await this.#isUploadKnown(key)))
        continue;
      await this.#reportStray(`upload ${uploadId} of ${key} is neither completed nor aborted`);
    }
    return true;
  }

  async #isUploadKnown(key: string): Promise<boolean> {
    if (await this.#isBeingWritten(key)) this.beingWritten += 1;
    else if (await isUploadKnown(this.#sql, this.#place.all, key)) this.leftovers += 1;
    else return false;
    return true;
  }

  async #lookAtKeys(keys: readonly string[]): Promise<void> {
    const { all, own, destination } = this.#place;
    for (const key of await this.#withoutKnown(await this.#withoutKnown(keys, own), all)) {
      if (await this.#manifests.has(key)) continue;
      if (await this.#isBeingWritten(key)) {
        this.beingWritten += 1;
        continue;
      }
      // It may have been removed, or committed, since the list was read.
      const isThere = (await destination.statFile(key)) !== null;
      if (!isThere || (await this.#withoutKnown([key], all)).length === 0) continue;
      await this.#reportStray(`${key} is in no current manifest`);
    }
  }

  async #reportStray(detail: string): Promise<void> {
    if (await this.#place.hasMoved()) this.#leaveOut(movedMeanwhile);
    else this.#report(detail);
  }

  async #withoutKnown(
    keys: readonly string[],
    owners: readonly FolderOwner[],
  ): Promise<readonly string[]> {
    if (keys.length === 0) return keys;
    const starts = [...new Set(keys.map(startOf))];
    const { current, uncommitted, replaced } = await findKnownKeys(this.#sql, owners, keys, starts);
    return keys.filter((key) => {
      if (current.has(key)) return false;
      if (replaced.has(key)) this.#replaced.add(key);
      else if (uncommitted.has(key)) this.leftovers += 1;
      else return true;
      return false;
    });
  }

  /** Says whether an export that writes to this folder has a live run of the key's interval. */
  async #isBeingWritten(key: string): Promise<boolean> {
    const near = this.#place.all.filter(
      ({ folder }) => folder === '' || key.startsWith(`${folder}/`),
    );
    return (await listWriters(this.#sql, near, startOf(key))).length > 0;
  }
}

const mostNamed = 5;

function named(keys: ReadonlySet<string>): string {
  const more = keys.size - mostNamed;
  return [...keys].slice(0, mostNamed).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** The start of the interval of a key of ours, which may be no date. */
function startOf(key: string): string {
  const start = readKey(key)?.start ?? '';
  return Number.isNaN(Date.parse(start)) ? '-infinity' : start;
}

/** Null: nothing can be said about the destination at all. */
function reasonOf({ code, message }: SluiceError): string | null {
  if (code === 'destination.access_denied') return 'the key may not list';
  if (code === 'destination.invalid_answer') return message;
  if (code === 'destination.invalid_config') return 'the store does not list them';
  return null;
}

async function hasUpload(
  destination: Destination,
  key: string,
  uploadId: string,
): Promise<boolean> {
  for await (const upload of destination.listUploads(key)) {
    if (upload.key === key && upload.uploadId === uploadId) return true;
  }
  return false;
}

/** Looks up keys in the bucket's manifests: of exports that left the place. A manifest of another history than this database's proves nothing. */
class ManifestNames {
  readonly #sql: Sql;
  readonly #destination: Destination;
  readonly #report: (detail: string) => void;
  /** The keys in the manifests that the last key could belong to, by the key of the manifest. */
  #last = new Map<string, ReadonlySet<string>>();

  constructor(sql: Sql, destination: Destination, report: (detail: string) => void) {
    this.#sql = sql;
    this.#destination = destination;
    this.#report = report;
  }

  /** Also true if the key was reported with its manifest. */
  async has(key: string): Promise<boolean> {
    const last = this.#last;
    this.#last = new Map();
    // The file of a partition has its manifest above the folders of the partition.
    for (const stem of stemsOfKey(readKey(key)?.stem ?? key)) {
      const manifestKey = keyOfManifest({ stem });
      const names = last.get(manifestKey) ?? (await this.#read(manifestKey));
      this.#last.set(manifestKey, names);
      if (names.has(key)) return true;
    }
    return false;
  }

  async #read(manifestKey: string): Promise<ReadonlySet<string>> {
    const reading = await readManifestAt(this.#destination, manifestKey);
    const manifest = reading !== null && reading !== 'denied' ? reading.manifest : null;
    if (!manifest) return new Set();
    const files = [...manifest.files, ...manifest.rejected_files];
    const run = {
      exportId: manifest.batch_export_id,
      runId: manifest.run_id,
      generation: manifest.generation,
      era: manifest.era,
    };
    if (!(await this.#isOurs(run, startOf(manifestKey)))) {
      this.#report(
        `${manifestKey} is of run ${run.runId} of export ${run.exportId}, which this database does not know: of a history ` +
          'that was lost when the database was restored, or of another installation',
      );
    }
    return new Set([manifestKey, ...files.map(({ key }) => key)]);
  }

  async #isOurs(run: Parameters<typeof isOfOurHistory>[1], start: string): Promise<boolean> {
    const isWhole = Number.isSafeInteger(run.generation) && run.generation < 2 ** 31;
    const hasIds = uuid.test(run.exportId) && uuid.test(run.runId);
    return isWhole && hasIds && isOfOurHistory(this.#sql, run, start);
  }
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
