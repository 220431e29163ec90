import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import { runCli } from './cli.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  retireExports,
  type S3ExportChanges,
  untilEnded,
} from './exported-events.ts';
import { bucket, type Installation, region } from './installation.ts';

/** Rows of an exported hour. */
export const rows = 100;

/** What the tests of `sluice verify` do. */
export interface VerifySide {
  /** To put objects that Sluice did not write. */
  readonly store: S3Client;
  verify(
    args?: readonly string[],
  ): Promise<{ code: number; lines: string[]; out: string; err: string }>;
  /** Exports `rows` rows of an hour. @returns the id of the export */
  exportHour(changes?: S3ExportChanges): Promise<string>;
  put(key: string, body?: string | Buffer, into?: string): Promise<void>;
  /** Deletes what a test has made. */
  clean(): Promise<void>;
  close(): void;
}

export function openVerifySide(installation: Installation): VerifySide {
  const { s3, secrets, pool, tenant, env } = installation;
  const store = new S3Client({
    region,
    endpoint: s3.endpoint,
    forcePathStyle: true,
    credentials: {
      accessKeyId: secrets.get('the access key id') ?? '',
      secretAccessKey: secrets.get('the secret access key') ?? '',
    },
  });
  return {
    store,
    async verify(args = []) {
      const { code, out, err } = await runCli(['verify', ...args], { env });
      return { code, lines: out.trimEnd().split('\n'), out, err };
    },
    async exportHour(changes = {}) {
      await insertEvents(pool, { team: tenant.projectIds[0], rows });
      const id = await createS3Export(installation, changes);
      await backfill(installation, id);
      expect(await untilEnded(installation, id)).toMatchObject([{ status: 'Completed', rows }]);
      return id;
    },
    async put(key, body = '{}\n', into = bucket) {
      await store.send(new PutObjectCommand({ Bucket: into, Key: key, Body: body }));
    },
    async clean() {
      await s3.faults.clear();
      await s3.setQuirks({});
      await retireExports(installation);
      await pool.query('delete from events');
    },
    close: () => store.destroy(),
  };
}
