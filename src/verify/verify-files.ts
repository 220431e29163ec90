import { createHash } from 'node:crypto';
import type { Destination } from '../destinations/destination.ts';
import { decodeManifest, type Manifest } from '../pipeline/manifest.ts';
import type { Receipt } from '../store/receipts.ts';
import type { Finding } from './finding.ts';

/** What is at the destination for one interval, read whole. */
export interface FilesInForce {
  readonly manifest: Pick<Manifest, 'format' | 'compression'>;
  readonly files: readonly {
    readonly key: string;
    readonly bytes: Buffer;
    /** Rows that the format could not hold, as JSON Lines with reasons. */
    readonly rejected: boolean;
  }[];
  readonly findings: readonly Finding[];
}

/**
 * I4: each entry of the receipt and of the manifest exists with its bytes and checksum.
 *
 * @param format what the files are taken for where no manifest says it
 */
export async function verifyFiles(
  destination: Destination,
  receipt: Receipt,
  format: Pick<Manifest, 'format' | 'compression'>,
): Promise<FilesInForce> {
  const findings: Finding[] = [];
  const lie = (detail: string) =>
    findings.push({ invariant: 'I4', exportId: receipt.exportId, detail });

  const manifest = receipt.manifestKey && (await readAll(destination, receipt.manifestKey));
  const read = manifest ? decodeManifest(manifest.bytes) : null;
  if (receipt.manifestKey !== null) {
    if (!read) lie(`${receipt.manifestKey} is missing`);
    else if (JSON.stringify(read.files) !== JSON.stringify(receipt.files.map(entryOf))) {
      lie(`${receipt.manifestKey} lists other files than the run recorded`);
    }
  }
  const files: { key: string; bytes: Buffer; rejected: boolean }[] = [];
  const entries = [
    ...receipt.files.map((file) => ({ ...file, rejected: false })),
    ...receipt.rejectedFiles.map((file) => ({ ...file, rejected: true })),
  ];
  for (const { key, bytes, sha256, rejected } of entries) {
    const found = await readAll(destination, key);
    if (!found) {
      lie(`${key} is missing`);
    } else if (found.bytes.length !== bytes) {
      lie(`${key} has ${found.bytes.length} bytes, its manifest says ${bytes}`);
    } else if (createHash('sha256').update(found.bytes).digest('hex') !== sha256) {
      lie(`${key} does not have the checksum of its manifest`);
    } else {
      files.push({ key, bytes: found.bytes, rejected });
    }
  }
  return { manifest: read ?? format, files, findings };
}

const entryOf = ({ key, rows, bytes, sha256 }: Receipt['files'][number]) => ({
  key,
  rows,
  bytes,
  sha256,
});

async function readAll(destination: Destination, key: string): Promise<{ bytes: Buffer } | null> {
  const found = await destination.readFile(key);
  if (!found) return null;
  const chunks: Uint8Array[] = [];
  for await (const chunk of found.body) chunks.push(chunk);
  return { bytes: Buffer.concat(chunks) };
}
