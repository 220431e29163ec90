/** One interval of one export: our database, its bucket, and who works on it. */

/** What an attempt would write: where, and which bytes. The files' extension follows from the bytes. */
export interface Config {
  /** With its place before it, if that is not the first one: `B:p`; `a:` is the first one by another address. */
  readonly prefix: string;
  /** `gzip`, `plain`; a star stands for other rows under the same recipe. */
  readonly bytes: string;
  /** Its file is smaller than a part: it is put at once, without an upload. */
  readonly isSmall?: boolean;
}

export interface Run {
  status: 'Running' | 'Completed' | 'Failed';
  fence: number;
  /** `runs.file_generation`: what its newest attempt writes under. */
  generation: number;
  /** `commit_intent`: what its newest attempt that reached beginCommit was about to commit. */
  intent: (Config & { readonly generation: number }) | null;
  /** What it committed. */
  bytes: string | null;
}

/** A manifest; a tombstone has no bytes. */
export interface Manifest {
  readonly prefix: string;
  /** The ETag: follows from the content, as an MD5 does. */
  readonly tag: string;
  readonly run: number;
  readonly era: number;
  readonly generation: number;
  readonly bytes: string | null;
}

export interface Database {
  era: number;
  /** Newest last; only the newest can be live (`runs_live_interval`). */
  runs: Run[];
  receipt: Manifest | null;
  /** `leftover_files`: keys that are, or may come to be, and that the receipt does not name. */
  leftovers: string[];
  /** Those of them whose commit was begun and never confirmed. */
  uncommitted: string[];
  /** Those of them whose object was deleted, and will be once more. */
  deleted: string[];
  /** `upload_places`: how often attempts have noted that they begin uploads, since it was looked for them; null: never. */
  noted: number | null;
  /** Two addresses were found to be one place: what is at the other one is here too. */
  isMerged?: boolean;
}

export interface Upload {
  readonly parts: string;
  /** It was begun when its sender had lost its lease: the note may be gone. */
  readonly late: boolean;
}

export interface Bucket {
  objects: Record<string, string>;
  manifests: Record<string, Manifest>;
  uploads: Record<string, Upload>;
}

/** The steps of docs/internals/guarantees.md, in their order. */
export type Step =
  | 'read the manifest'
  | 'raise the generation'
  | 'note the place'
  | 'upload parts'
  | 'compare digests'
  | 'record unchanged'
  | 'begin commit'
  | 'complete files'
  | 'put the manifest'
  | 'look at the conflict'
  | 'record'
  | 'read a former manifest'
  | 'put a tombstone'
  | 'list uploads'
  | 'abort uploads'
  | 'delete files'
  | 'forget leftovers'
  | 'forget the place';

/** A worker at its next step. It knows what it read, not what is. */
export interface Attempt {
  readonly name: string;
  /** -1 for the sweep. */
  readonly run: number;
  readonly fence: number;
  readonly era: number;
  readonly config: Config;
  readonly step: Step;
  readonly generation: number;
  /** Of its upload, which no other attempt has; empty if it has none. */
  readonly upload: string;
  /** The current manifest as it was when the attempt began. */
  readonly found: Manifest | null;
  readonly committed: Manifest | null;
  /** Other prefixes at which the interval has a manifest or may yet get one: each needs a tombstone. */
  readonly former: readonly string[];
  /** What is at the first of them. */
  readonly there: Manifest | null;
  readonly abort: readonly string[];
  readonly remove: readonly string[];
  /** It removes what was deleted an hour ago. */
  readonly isAgain?: boolean;
  /** How often the place was noted when a look began; null while a run was live. Absent: it is no look. */
  readonly notes?: number | null;
  /** Uploads that a look has listed. */
  readonly listed?: readonly string[];
}

export interface State {
  db: Database;
  bucket: Bucket;
  workers: (Attempt | null)[];
  /** Requests that have not taken effect yet and whose sender is gone: each as its sender was. */
  late: Attempt[];
  /** Which of the scenario's configs the export has. */
  config: number;
  backup: Database | null;
  budget: Budget;
  /** What only the checker knows. */
  seen: {
    given: number[];
    /** Keys that an outsider deleted. */
    damaged: string[];
    /** How many runs there were then: a later one repairs it. */
    damagedAt: number;
    /** Keys of whose commit another's manifest has refused the manifest. */
    refused: string[];
    restored: boolean;
    /** Since the restore, no run has committed. */
    astray: boolean;
  };
}

/** What may still happen. A scenario is small if these are. */
export interface Budget {
  runs: number;
  claims: number;
  failures: number;
  late: number;
  echoes: number;
  sweeps: number;
  looks: number;
  restores: number;
  outsiders: number;
  /** Objects that another program puts at keys of ours. */
  foreigners: number;
}

export function keyOf({ prefix, bytes }: Config, generation: number): string {
  return `${prefix}/v${generation}.${bytes.replaceAll('*', '')}`;
}

export function keyNamedBy(manifest: Manifest): string | null {
  const { prefix, bytes, generation } = manifest;
  return bytes === null ? null : keyOf({ prefix, bytes }, generation);
}

/** Of a key, or of an upload's id. */
export const generationOf = (key: string): number => Number(/\/v(\d+)\./.exec(key)?.[1]);

export const prefixOf = (key: string): string => key.slice(0, key.indexOf('/'));

/** Where a prefix or a key is by our records: they know places by their addresses. */
export const placeOf = (key: string): string => /^(\w+):/.exec(key)?.[1] ?? 'A';

/** What is really there: two addresses can be one place. */
export const really = (key: string): string => key.replace(/^a:/, '');

/** Of objects that are not this export's. */
export const foreign = 'foreign';

export const isForeign = (manifest: Manifest | null): boolean => manifest?.tag === foreign;

export const lastRun = (db: Database): Run | null => db.runs.at(-1) ?? null;

/** A copy whose parts can be changed. Attempts, manifests and uploads are never changed, only replaced. */
export function copyOf(state: State): State {
  const { db, bucket, workers, late, budget, seen } = state;
  return {
    ...state,
    db: copyOfDatabase(db),
    bucket: {
      objects: { ...bucket.objects },
      manifests: { ...bucket.manifests },
      uploads: { ...bucket.uploads },
    },
    workers: [...workers],
    late: [...late],
    budget: { ...budget },
    seen: {
      ...seen,
      given: [...seen.given],
      damaged: [...seen.damaged],
      refused: [...seen.refused],
    },
  };
}

export function copyOfDatabase(db: Database): Database {
  return {
    ...db,
    runs: db.runs.map((run) => ({ ...run })),
    leftovers: [...db.leftovers],
    uncommitted: [...db.uncommitted],
    deleted: [...db.deleted],
  };
}

const texts = new WeakMap<object, string>();

/** Of what never changes: an attempt has many states. */
function textOf(value: object | null): string {
  if (value === null) return '-';
  let text = texts.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    texts.set(value, text);
  }
  return text;
}

/** Workers are alike, and what is a set has no order. */
export function keyOfState(state: State): string {
  const { workers, late, db, bucket, config, backup, budget, seen } = state;
  return [
    workers.map(textOf).sort().join(),
    late.map(textOf).sort().join(),
    textOfDatabase(db),
    textOfEntries(bucket.objects, String),
    textOfEntries(bucket.manifests, textOf),
    textOfEntries(bucket.uploads, textOf),
    config,
    backup === null ? '' : textOfDatabase(backup),
    Object.values(budget).join(),
    seen.given.join(),
    seen.damaged.join(),
    seen.refused.join(),
    `${seen.damagedAt}${seen.restored}${seen.astray}`,
  ].join('|');
}

function textOfDatabase(db: Database): string {
  const { era, runs, receipt, leftovers, uncommitted, deleted, noted, isMerged = false } = db;
  const rows = runs.map(
    ({ status, fence, generation, intent, bytes }) =>
      `${status} ${fence} ${generation} ${textOf(intent)} ${bytes}`,
  );
  const sets = [leftovers, uncommitted, deleted].map((set) => [...set].sort());
  return `${era}${isMerged}${noted}/${rows.join()}/${textOf(receipt)}/${sets.join('/')}`;
}

function textOfEntries<T>(entries: Record<string, T>, text: (value: T) => string): string {
  const keys = Object.keys(entries).sort();
  return keys.map((key) => `${key}=${text(entries[key] as T)}`).join();
}
