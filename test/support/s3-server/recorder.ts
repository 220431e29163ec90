import type { Bucket, StoredObject } from './storage.ts';

/** One write or delete of an object's key that took effect. */
export interface ObjectWrite {
  /** From 1, over all buckets, in the order in which they took effect. */
  sequence: number;
  /** Milliseconds since the epoch. */
  at: number;
  bucket: string;
  key: string;
  by: 'put' | 'complete' | 'delete';
  kind: 'manifest' | 'file';
  /** Null for a delete. */
  etag: string | null;
}

export interface Recorder {
  readonly writes: readonly ObjectWrite[];
  readonly violations: readonly string[];
  /** After it took effect, in the same turn. */
  wrote(bucket: Bucket, object: StoredObject, by: 'put' | 'complete'): void;
  deleted(bucket: Bucket, key: string): void;
}

interface NamedFile {
  readonly key: string;
  readonly bytes: number;
}

const maxWrites = 200_000;
const isManifest = (key: string): boolean => key.endsWith('_manifest.json');

/**
 * Keeps every write and delete, and checks them against the rule of the files that Sluice writes: a
 * key that a current manifest names is never written or deleted, and what a manifest names is there,
 * with its bytes, when the manifest is put.
 */
export function createRecorder(now: () => number): Recorder {
  const writes: ObjectWrite[] = [];
  const violations: string[] = [];
  /** What each manifest names, by address. */
  const named = new Map<string, readonly string[]>();
  /** The manifests that name an address. */
  const namedBy = new Map<string, Set<string>>();
  let sequence = 0;

  const record = (bucket: Bucket, key: string, by: ObjectWrite['by'], etag: string | null) => {
    sequence += 1;
    const kind = isManifest(key) ? 'manifest' : 'file';
    writes.push({ sequence, at: now(), bucket: bucket.name, key, by, kind, etag });
    if (writes.length > maxWrites) writes.shift();
    for (const manifest of namedBy.get(addressOf(bucket, key)) ?? []) {
      violations.push(`write ${sequence}: ${by} of ${key}, which ${manifest} names`);
    }
  };

  const forget = (manifest: string): void => {
    for (const file of named.get(manifest) ?? []) {
      const others = namedBy.get(file);
      others?.delete(manifest);
      if (others?.size === 0) namedBy.delete(file);
    }
    named.delete(manifest);
  };

  const remember = (manifest: string, files: readonly string[]): void => {
    forget(manifest);
    named.set(manifest, files);
    for (const file of files) {
      const others = namedBy.get(file);
      if (others) others.add(manifest);
      else namedBy.set(file, new Set([manifest]));
    }
  };

  return {
    writes,
    violations,
    wrote(bucket, object, by) {
      const { key, etag } = object;
      record(bucket, key, by, etag);
      if (!isManifest(key)) return;
      const files = namedFiles(object);
      for (const file of files) {
        const found = bucket.objects.get(file.key)?.bytes;
        if (found === file.bytes) continue;
        const there = found === undefined ? 'is not there' : `has ${found} bytes`;
        violations.push(
          `write ${sequence}: ${key} names ${file.key} of ${file.bytes} bytes, which ${there}`,
        );
      }
      remember(
        addressOf(bucket, key),
        files.map((file) => addressOf(bucket, file.key)),
      );
    },
    deleted(bucket, key) {
      record(bucket, key, 'delete', null);
      forget(addressOf(bucket, key));
    },
  };
}

function addressOf(bucket: Bucket, key: string): string {
  return `${bucket.name}/${key}`;
}

/** Files and rejected files of a manifest; none of an object that only has its name. */
function namedFiles({ chunks }: StoredObject): readonly NamedFile[] {
  try {
    const { files = [], rejected_files: rejected = [] } = JSON.parse(
      Buffer.concat(chunks).toString('utf8'),
    ) as { files?: readonly NamedFile[]; rejected_files?: readonly NamedFile[] };
    return [...files, ...rejected];
  } catch {
    return [];
  }
}
