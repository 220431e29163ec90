import { randomBytes } from 'node:crypto';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { Value } from 'typebox/value';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  Destination,
  DestinationContext,
  DestinationDefinition,
  FileOptions,
  FileWriter,
  UploadJournal,
  UploadRef,
} from '../../src/rows/destinations/destination.ts';
import type { DestinationTestkit, DestinationTestStore, TestStores } from './testkits/testkit.ts';
import { SluiceError } from '../../src/foundation/domain/errors.ts';

const agents = { httpAgent: new HttpAgent({ keepAlive: true }), httpsAgent: new HttpsAgent() };

export function contextWith(overrides: Partial<DestinationContext>): DestinationContext {
  return {
    ...agents,
    allowAmbientCredentials: false,
    stsEndpoint: null,
    fileDestinationRoot: null,
    partBytes: 5 * 1024 ** 2,
    partsInFlight: 2,
    maxParts: 10_000,
    connectTimeoutMs: 2_000,
    stallTimeoutMs: 10_000,
    minBytesPerSecond: 16 * 1024,
    requestRetry: { maxAttempts: 5, baseMs: 5, capMs: 20 },
    ...overrides,
  };
}

export const owner = { externalId: 'project-1' };

/** Keeps what a journal hears, in order. */
export function recordingJournal() {
  const heard: string[] = [];
  const sent: { readonly key: string; readonly part: number; readonly bytes: number }[] = [];
  const journal: UploadJournal = {
    marker: '',
    starting: async () => void heard.push('starting'),
    sent: async (key, part, bytes) => {
      heard.push('sent');
      sent.push({ key, part, bytes });
    },
  };
  return { journal, heard, sent };
}

/** The upload that a writer has begun. */
export function uploadOf({ upload }: Pick<FileWriter, 'upload'>): UploadRef {
  if (upload === null) throw new Error('the writer has begun no upload');
  return upload;
}

export const options = (key: string): FileOptions => ({ key, contentType: 'application/jsonl' });

export async function readAll(destination: Destination, key: string): Promise<Buffer | null> {
  const found = await destination.readFile(key);
  if (found === null) return null;
  const chunks: Uint8Array[] = [];
  for await (const chunk of found.body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export async function keysUnder(destination: Destination, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of destination.listFiles(prefix)) keys.push(key);
  return keys;
}

export async function uploadsUnder(destination: Destination, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of destination.listUploads(prefix)) keys.push(key);
  return keys;
}

export async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => new Error('nothing was thrown'),
    (caught: unknown) => caught,
  );
  return error instanceof SluiceError ? error.code : String(error);
}

/** Fails if `promise` does not fail with an error of the catalogue. */
export async function errorOf(promise: Promise<unknown>): Promise<SluiceError> {
  const caught: unknown = await promise.catch((error: unknown) => error);
  if (!(caught instanceof SluiceError)) throw new Error(`no SluiceError: ${String(caught)}`);
  return caught;
}

/**
 * What every destination does, whatever its store is.
 *
 * @param lacks what the store itself does not know
 */
export function describeDestination(
  title: string,
  definition: DestinationDefinition,
  kit: DestinationTestkit,
  stores: TestStores,
  lacks: readonly ('conditions' | 'lists of uploads')[] = [],
): void {
  describe(`the destination ${title}`, () => {
    let store: DestinationTestStore;
    let context: DestinationContext;
    let destination: Destination;

    beforeAll(async () => {
      store = await kit.start(stores);
      context = contextWith(store.context);
      destination = definition.open({ ...store.config }, context, owner);
    });
    afterAll(async () => {
      await destination.close();
      await store.stop();
    });

    it('describes each property of its config, and takes a valid one', () => {
      for (const [name, schema] of Object.entries(definition.configSchema.properties)) {
        expect(schema, name).toHaveProperty('description');
      }
      expect([...Value.Errors(definition.configSchema, store.config)]).toEqual([]);
      expect(definition.validate({ ...store.config }, context)).toEqual([]);
    });

    it('refuses each invalid config and names the property', () => {
      for (const { change, attr } of store.invalid) {
        const problems = definition.validate({ ...store.config, ...change }, context);
        const named = problems.map((problem) => problem.attr);
        expect(named, JSON.stringify(change)).toContain(attr);
      }
    });

    it('refuses a property that it does not know', () => {
      expect(Value.Check(definition.configSchema, { ...store.config, surprise: 1 })).toBe(false);
    });

    it('passes its own test and leaves nothing of it behind', async () => {
      const steps = await destination.test(AbortSignal.timeout(10_000));
      expect(steps.filter((step) => !step.passed || step.error !== null)).toEqual([]);
      expect(steps.length).toBeGreaterThan(0);
      expect(await keysUnder(destination, '')).toEqual([]);
    });

    it.runIf(!definition.keepsFiles)('notes no upload, because none has to be ended', async () => {
      const { journal, heard } = recordingJournal();
      const writer = await destination.createFile(options('journal/a.jsonl'), journal);
      await writer.write(Buffer.from('a'));
      await writer.complete();
      expect(heard).toEqual([]);
      expect(JSON.parse(JSON.stringify(writer.upload))).toEqual(writer.upload);
    });

    it.runIf(definition.keepsFiles)('notifies the journal before it begins an upload', async () => {
      const lost = () => Promise.reject(new SluiceError('run.lease_lost'));
      const never = { ...recordingJournal().journal, starting: lost };
      const refused = destination.createFile(options('journal/a.jsonl'), never);
      expect(await codeOf(refused)).toBe('run.lease_lost');
      const listsUploads = !lacks.includes('lists of uploads');
      if (listsUploads) expect(await uploadsUnder(destination, 'journal/')).toEqual([]);
      const { journal, heard } = recordingJournal();
      await (await destination.createFile(options('journal/a.jsonl'), journal)).abort();
      expect(heard).toEqual(['starting']);
    });

    it('accepts the abort of an unknown upload', async () => {
      const { journal } = recordingJournal();
      const writer = await destination.createFile(options('unknown/a.jsonl'), journal);
      await writer.abort();
      await writer.abort();
      await destination.abortUpload(uploadOf(writer));
      await destination.abortUpload({ ...uploadOf(writer), key: 'unknown/elsewhere.jsonl' });
    });

    it('deletes what is not there', async () => {
      await destination.deleteFiles(['nothing/here.jsonl', 'nothing/there.jsonl']);
    });

    it('finds no file at an unused key', async () => {
      expect(await destination.readFile('nothing/here.jsonl')).toBeNull();
      expect(await keysUnder(destination, 'nothing')).toEqual([]);
    });

    describe.runIf(kit.keepsFiles)('as a keeper of files', () => {
      it('shows nothing before complete, then every byte in order', async () => {
        const { journal, sent } = recordingJournal();
        const key = 'whole/2024-03-01T00:00:00Z-2024-03-01T01:00:00Z.jsonl';
        const writer = await destination.createFile(options(key), journal);
        // Over two parts, in writes that fit no boundary.
        const pieces = Array.from({ length: 12 }, () => randomBytes(1_000_003));
        for (const piece of pieces) await writer.write(piece);
        expect(await destination.readFile(key)).toBeNull();
        expect(await keysUnder(destination, 'whole')).toEqual([]);
        const listsUploads = !lacks.includes('lists of uploads');
        if (listsUploads) expect(await uploadsUnder(destination, 'whole/')).toEqual([key]);
        await writer.complete();
        expect((await readAll(destination, key))?.equals(Buffer.concat(pieces))).toBe(true);
        expect(await keysUnder(destination, 'whole')).toEqual([key]);
        if (listsUploads) expect(await uploadsUnder(destination, '')).toEqual([]);
        const first = sent.find(({ part }) => part === 1);
        expect(first?.key).toBe(key);
        expect(first?.bytes).toBeGreaterThanOrEqual(5 * 1024 ** 2);
      });

      it('completes again to the same effect', async () => {
        const { journal } = recordingJournal();
        const writer = await destination.createFile(options('twice/a.jsonl'), journal);
        await writer.write(Buffer.from('once'));
        const first = await writer.complete();
        expect(await writer.complete()).toEqual(first);
        await writer.abort();
        expect(String(await readAll(destination, 'twice/a.jsonl'))).toBe('once');
      });

      it('keeps a file without a byte', async () => {
        const { journal } = recordingJournal();
        const writer = await destination.createFile(options('empty/a.jsonl'), journal);
        await writer.complete();
        expect((await readAll(destination, 'empty/a.jsonl'))?.length).toBe(0);
      });

      it('replaces a file of the same key, whole, at complete', async () => {
        const { journal } = recordingJournal();
        for (const text of ['a longer first text', 'second']) {
          const writer = await destination.createFile(options('same/a.jsonl'), journal);
          await writer.write(Buffer.from(text));
          await writer.complete();
          expect(String(await readAll(destination, 'same/a.jsonl'))).toBe(text);
        }
        expect(await keysUnder(destination, 'same')).toEqual(['same/a.jsonl']);
      });

      it('leaves nothing after abort, and what was there before stays', async () => {
        const { journal } = recordingJournal();
        const before = await destination.createFile(options('abort/a.jsonl'), journal);
        await before.write(Buffer.from('before'));
        await before.complete();
        const writer = await destination.createFile(options('abort/a.jsonl'), journal);
        for (let i = 0; i < 6; i += 1) await writer.write(randomBytes(1024 ** 2));
        await writer.abort();
        expect(await uploadsUnder(destination, 'abort')).toEqual([]);
        expect(String(await readAll(destination, 'abort/a.jsonl'))).toBe('before');
        expect(await codeOf(writer.complete())).toMatch(/^destination\./);
        expect(await codeOf(writer.write(Buffer.from('x')))).toMatch(/^destination\./);
      });

      it('cannot be completed by a worker whose upload the next attempt has aborted', async () => {
        const { journal } = recordingJournal();
        const zombie = await destination.createFile(options('zombie/a.jsonl'), journal);
        await zombie.write(Buffer.from('zombie'));
        await destination.abortUpload(uploadOf(zombie));
        const next = await destination.createFile(options('zombie/a.jsonl'), journal);
        await next.write(Buffer.from('next'));
        await next.complete();
        expect(await codeOf(zombie.complete())).toBe('destination.upload_lost');
        expect(String(await readAll(destination, 'zombie/a.jsonl'))).toBe('next');
        await zombie.abort();
        expect(String(await readAll(destination, 'zombie/a.jsonl'))).toBe('next');
      });

      it.skipIf(lacks.includes('conditions'))(
        'lets one of two writers commit the first manifest',
        async () => {
          const key = 'manifest/first_manifest.json';
          const bodies = ['{"run":1}', '{"run":2}'].map((text) => Buffer.from(text));
          const outcomes = await Promise.allSettled(
            bodies.map((body) => destination.commitManifest(key, body, null)),
          );
          const won = outcomes.findIndex((outcome) => outcome.status === 'fulfilled');
          const lost = outcomes.filter((outcome) => outcome.status === 'rejected');
          expect(lost.map((outcome) => (outcome.reason as SluiceError).code)).toEqual([
            'destination.conflict',
          ]);
          expect(await readAll(destination, key)).toEqual(bodies[won]);
        },
      );

      it.skipIf(lacks.includes('conditions'))(
        'replaces a manifest only if the current one is the expected one',
        async () => {
          const key = 'manifest/replace_manifest.json';
          const commit = (text: string, expected: string | null) =>
            destination.commitManifest(key, Buffer.from(text), expected);
          const first = await commit('{"v":1}', null);
          expect(await tagOf(destination, key)).toBe(first.etag);
          const second = await commit('{"v":2}', first.etag);
          expect(await codeOf(commit('{"v":3}', first.etag))).toBe('destination.conflict');
          expect(await codeOf(commit('{"v":3}', null))).toBe('destination.conflict');
          expect(String(await readAll(destination, key))).toBe('{"v":2}');
          await destination.deleteFiles([key]);
          expect(await codeOf(commit('{"v":3}', second.etag))).toBe('destination.conflict');
          expect(await destination.readFile(key)).toBeNull();
        },
      );

      it('commits the same manifest again to the same effect', async () => {
        const key = 'manifest/again_manifest.json';
        const body = Buffer.from('{"same":true}');
        const first = await destination.commitManifest(key, body, null);
        expect(await destination.commitManifest(key, body, null)).toEqual(first);
      });

      it('lists by prefix, in order, and deletes the keys it is given', async () => {
        // Some stores have no character before a slash.
        const first = 'list/a-1';
        const keys = [first, 'list/a/1', 'list/a/2', 'list/b', 'lisu'];
        for (const key of [...keys].reverse()) {
          const writer = await destination.createFile(options(key), recordingJournal().journal);
          await writer.write(Buffer.from(key));
          await writer.complete();
        }
        expect(await keysUnder(destination, 'list/')).toEqual(keys.slice(0, 4));
        expect(await keysUnder(destination, 'list/a')).toEqual(keys.slice(0, 3));
        for await (const { key, bytes } of destination.listFiles('list/')) {
          expect(bytes).toBe(key.length);
        }
        const after: string[] = [];
        for await (const { key } of destination.listFiles('list/', undefined, 'list/a/1'))
          after.push(key);
        expect(after).toEqual(['list/a/2', 'list/b']);
        await destination.deleteFiles(keys.slice(0, 4));
        expect(await keysUnder(destination, 'lis')).toEqual(['lisu']);
      });
    });
  });
}

/** Reads the body too: an answer that is left unread holds on to its connection. */
async function tagOf(destination: Destination, key: string): Promise<string | null> {
  const found = await destination.readFile(key);
  if (found) for await (const _ of found.body);
  return found?.etag ?? null;
}
