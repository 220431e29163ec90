import { icebergManifests, icebergMetadata, icebergRead } from 'icebird';
import { vi } from 'vitest';
import type { Destination } from '../../src/rows/destinations/destination.ts';
import { readAll } from '../conformance/destination-suite.ts';
import { bucket } from './s3-destination.ts';

type Row = Readonly<Record<string, unknown>>;

/**
 * Icebird reads a table as at AWS; its requests are answered from the destination.
 *
 * @param snapshotId of time travel; absent: the current snapshot
 */
export async function readByIcebird(
  destination: Destination,
  folder: string,
  snapshotId?: number,
): Promise<readonly Row[]> {
  vi.stubGlobal('fetch', (url: string, init?: RequestInit) => answer(destination, url, init));
  try {
    const tableUrl = `s3://${bucket}/${folder}`;
    const metadata = await icebergMetadata({ tableUrl });
    const wanted = snapshotId ?? metadata['current-snapshot-id'] ?? -1;
    if (!metadata.snapshots?.some((snapshot) => snapshot['snapshot-id'] === wanted)) {
      throw new Error(`there is no snapshot ${wanted}`);
    }
    return await icebergRead({
      tableUrl,
      metadata: { ...metadata, 'current-snapshot-id': wanted },
    });
  } finally {
    vi.unstubAllGlobals();
  }
}

/** The bounds of a column of each file of the table, as its manifests have them. */
export async function boundsByIcebird(
  destination: Destination,
  folder: string,
  column: string,
): Promise<readonly (readonly [lower: Uint8Array, upper: Uint8Array])[]> {
  vi.stubGlobal('fetch', (url: string, init?: RequestInit) => answer(destination, url, init));
  try {
    const metadata = await icebergMetadata({ tableUrl: `s3://${bucket}/${folder}` });
    const fields = metadata.schemas.flatMap((schema) => schema.fields);
    const id = fields.find(({ name }) => name === column)?.id;
    const manifests = await icebergManifests(metadata);
    const files = manifests.flatMap(({ entries }) => entries).map((entry) => entry.data_file);
    return files.map(({ lower_bounds: lower, upper_bounds: upper }) => {
      // Icebird leaves a map of the manifest as its pairs.
      const valueIn = (pairs: unknown) =>
        (pairs as readonly { key: number; value: Uint8Array }[]).find(({ key }) => key === id)
          ?.value ?? new Uint8Array();
      return [valueIn(lower), valueIn(upper)] as const;
    });
  } finally {
    vi.unstubAllGlobals();
  }
}

/** The ids of the table's snapshots, oldest first. */
export async function snapshotsOf(destination: Destination, folder: string): Promise<number[]> {
  const hint = await readAll(destination, `${folder}/metadata/version-hint.text`);
  const body = await readAll(destination, `${folder}/metadata/v${hint}.metadata.json`);
  const { snapshots } = JSON.parse(String(body)) as {
    readonly snapshots: readonly { readonly 'snapshot-id': number }[];
  };
  return snapshots.map((snapshot) => snapshot['snapshot-id']);
}

async function answer(destination: Destination, url: string, init?: RequestInit) {
  const key = url.slice(`https://${bucket}.s3.amazonaws.com/`.length);
  const bytes = await readAll(destination, decodeURI(key));
  if (bytes === null) return new Response('no such key', { status: 404 });
  const range = new Headers(init?.headers).get('range');
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? [];
  if (from === undefined) return new Response(new Uint8Array(bytes));
  const end = to ? Number(to) + 1 : bytes.length;
  return new Response(new Uint8Array(bytes.subarray(Number(from), end)), { status: 206 });
}
