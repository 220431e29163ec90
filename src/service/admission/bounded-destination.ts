import type { Destination, OpenObject } from '../../rows/destinations/destination.ts';

/** A destination that is read only as far as `take` lets it: a store may answer with any number of bytes. */
export class BoundedDestination implements Destination {
  readonly holds: (bytes: number) => void;
  readonly #inner: Destination;
  readonly #take: (bytes: number) => void;

  /** @param take called for bytes before they are held; throws if there is no memory for them */
  constructor(inner: Destination, take: (bytes: number) => void) {
    this.#inner = inner;
    this.#take = take;
    this.holds = take;
  }

  get traits() {
    return this.#inner.traits;
  }

  async readFile(...asked: Parameters<Destination['readFile']>): Promise<OpenObject | null> {
    const found = await this.#inner.readFile(...asked);
    return found && { ...found, body: this.#counted(found.body) };
  }

  async *#counted(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const bytes of body) {
      this.#take(bytes.length);
      yield bytes;
    }
  }

  probe(...asked: Parameters<Destination['probe']>) {
    return this.#inner.probe(...asked);
  }

  createFile(...asked: Parameters<Destination['createFile']>) {
    return this.#inner.createFile(...asked);
  }

  abortUpload(...asked: Parameters<Destination['abortUpload']>) {
    return this.#inner.abortUpload(...asked);
  }

  listUploads(...asked: Parameters<Destination['listUploads']>) {
    return this.#inner.listUploads(...asked);
  }

  commitManifest(...asked: Parameters<Destination['commitManifest']>) {
    return this.#inner.commitManifest(...asked);
  }

  statFile(...asked: Parameters<Destination['statFile']>) {
    return this.#inner.statFile(...asked);
  }

  listFiles(...asked: Parameters<Destination['listFiles']>) {
    return this.#inner.listFiles(...asked);
  }

  deleteFiles(...asked: Parameters<Destination['deleteFiles']>) {
    return this.#inner.deleteFiles(...asked);
  }

  test(signal: AbortSignal) {
    return this.#inner.test(signal);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}
