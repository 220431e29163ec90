import { randomBytes } from 'node:crypto';
import type { ForeignS3 } from '../support/foreign-s3.ts';
import type { S3Credentials } from '../support/s3-server/authentication.ts';

/** A foreign S3 that runs on this machine. */
export interface ForeignStore extends ForeignS3 {
  readonly name: StoreName;
  /** With the version of what was installed, for the report. */
  readonly title: string;
}

export interface RunningStore extends ForeignStore {
  stop(): Promise<void>;
}

export const storeNames = ['ceph', 'swift'] as const;
export type StoreName = (typeof storeNames)[number];

/** How the suite, in a process of its own, hears of the store: its ForeignStore as JSON. */
export const storeVariable = 'STORE_UNDER_TEST';

export function readStore(): ForeignStore {
  const given = process.env[storeVariable];
  if (!given) throw new Error('There is no store to test: use `npm run test:stores`.');
  return JSON.parse(given) as ForeignStore;
}

/** Of the form that the search for leaked secrets looks for. */
export function newCredentials(): S3Credentials {
  return {
    accessKeyId: `AKIACANARY${randomBytes(5).toString('hex').toUpperCase()}`,
    secretAccessKey: `canary-secret-${randomBytes(12).toString('hex')}`,
  };
}

/** Whether anything answers at the address. */
export async function answers(endpoint: string): Promise<boolean> {
  const response = await fetch(endpoint).catch(() => null);
  await response?.text();
  return response !== null && response.status < 500;
}
