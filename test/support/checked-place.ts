import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'vitest';
import { createApiClient } from './api-client.ts';
import { projectPath } from './exported-events.ts';
import { bucket, type Installation } from './installation.ts';
import { checkers, runChecker } from './run-checker.ts';
import { until } from './until.ts';

/** Makes a statement of an export, and waits until a worker has put it. @returns what it says */
export async function makeStatement(installation: Installation, exportId: string) {
  const { client, tenant } = installation;
  const at = `${projectPath(installation)}/batch_exports/${exportId}/statements`;
  // The recording client takes its answer for an export.
  const made = await createApiClient(client.baseUrl, tenant.key).post(`${at}/`);
  expect(made.status, made.text).toBe(201);
  await until(async () => {
    const { number, put_number, put_fault } = (await client.get(`${at}/head/`)).body;
    expect(put_fault).toBeNull();
    return put_number === number;
  });
  return (await client.get(`${at}/${made.body.number}/`)).body as unknown as {
    readonly bookings: readonly Readonly<Record<string, unknown>>[];
    readonly [member: string]: unknown;
  };
}

/** Copies what is below a place into a folder, as a customer does. */
export async function copyPlace(
  { s3 }: Pick<Installation, 's3'>,
  place: string,
  folder: string,
): Promise<string> {
  const copy = await mkdtemp(path.join(folder, 'copy-'));
  for (const { key } of await s3.objects(bucket)) {
    if (!key.startsWith(`${place}/`)) continue;
    const file = path.join(copy, key.slice(place.length + 1));
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, await s3.body(bucket, key));
  }
  return copy;
}

/** Both checkers find a copy of the place right, each byte of it. */
export async function expectRight(
  installation: Pick<Installation, 's3'>,
  place: string,
): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-place-'));
  try {
    const copy = await copyPlace(installation, place, folder);
    for (const checker of checkers) expect(await runChecker(checker, copy)).toMatch(/^0: Right/);
  } finally {
    await rm(folder, { recursive: true });
  }
}
