import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder on local disk for one attempt, in the system's temporary folder. It is made if something needs it. */
export class SpoolFolder {
  #path: Promise<string> | null = null;

  path(): Promise<string> {
    this.#path ??= mkdtemp(join(tmpdir(), 'sluice-run-'));
    return this.#path;
  }

  async remove(): Promise<void> {
    if (this.#path) await rm(await this.#path, { recursive: true, force: true });
  }
}
