import { beginFile } from '../support/s3-destination.ts';
import { randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type {
  Destination,
  ManifestTag,
  PutLease,
} from '../../src/rows/destinations/destination.ts';
import { fileDefinition } from '../../src/rows/destinations/file/definition.ts';
import {
  codeOf,
  contextWith,
  keysUnder,
  options,
  owner,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import { folderOfTest } from '../support/own-folder.ts';

let base: string;
let root: string;
let outside: string;
let destination: Destination;

beforeEach(async () => {
  base = folderOfTest();
  root = join(base, 'root');
  outside = join(base, 'outside');
  await mkdir(root);
  await mkdir(outside);
  await writeFile(join(outside, 'secret'), 'secret');
  destination = fileDefinition.open(
    { directory: 'acme' },
    contextWith({ fileDestinationRoot: root, partBytes: 1000 }),
    owner,
  );
});

const create = (key: string) => destination.createFile(options(key), recordingJournal().journal);
const begin = (bytes: string | Uint8Array, key = 'x') =>
  beginFile(destination, Buffer.from(bytes), key);
const commit = (text: string, etag: ManifestTag = null, lease?: PutLease) =>
  destination.commitManifest('m.json', Buffer.from(text), etag, lease && { lease });

describe('a file destination stays below its root', () => {
  it.each(['../x', 'a/../../x', '/etc/x', 'a//b', './x', 'a\0b', ''])(
    'whatever the key: %j',
    async (key) => {
      const refused = 'destination.invalid_config';
      expect(await codeOf(create(key))).toBe(refused);
      expect(await codeOf(destination.readFile(key))).toBe(refused);
      expect(await codeOf(destination.deleteFiles([key]))).toBe(refused);
      expect(await codeOf(destination.commitManifest(key, Buffer.from('x'), null))).toBe(refused);
      expect(await codeOf(destination.abortUpload({ key, uploadId: '../x' }))).toMatch(
        /^destination/,
      );
      expect(await readdir(outside)).toEqual(['secret']);
      expect(await readdir(root)).toEqual([]);
    },
  );

  it('if a folder is a link that leads out', async () => {
    await mkdir(join(root, 'acme'));
    await symlink(outside, join(root, 'acme', 'link'));
    const refused = 'destination.invalid_config';
    expect(await codeOf(create('link/deep/x'))).toBe(refused);
    expect(await codeOf(destination.readFile('link/secret'))).toBe(refused);
    expect(await codeOf(destination.deleteFiles(['link/secret']))).toBe(refused);
    expect(await keysUnder(destination, '')).toEqual([]);
    expect(await readdir(outside)).toEqual(['secret']);
  });

  it('if its own directory is a link', async () => {
    await symlink(outside, join(root, 'acme'));
    expect(await codeOf(create('x'))).toBe('destination.invalid_config');
    expect(await codeOf(destination.readFile('secret'))).toBe('destination.invalid_config');
    const steps = await destination.test(AbortSignal.timeout(5000));
    expect(steps).toMatchObject([{ step: 'directory', passed: false }]);
  });

  it('if a file is a link: it is replaced, never followed', async () => {
    await mkdir(join(root, 'acme'));
    await symlink(join(outside, 'secret'), join(root, 'acme', 'x'));
    expect(await codeOf(destination.readFile('x'))).toBe('destination.invalid_config');
    await (await begin('new')).complete();
    expect(await readFile(join(outside, 'secret'), 'utf8')).toBe('secret');
    expect((await lstat(join(root, 'acme', 'x'))).isSymbolicLink()).toBe(false);
  });
});

describe('a file destination', () => {
  it('is refused if the installation has no root', () => {
    const problems = fileDefinition.validate({ directory: 'acme' }, contextWith({}));
    expect(problems).toMatchObject([{ attr: 'directory' }]);
  });

  it('says that its root is gone, as a transient error', async () => {
    await rm(root, { recursive: true });
    expect(await codeOf(create('x'))).toBe('destination.unavailable');
  });

  it('writes nothing more after bytes went missing', async () => {
    const writer = await begin('first');
    const broken = writer.write({ length: 5 } as unknown as Uint8Array);
    expect(await codeOf(broken)).not.toBe('Error: nothing was thrown');
    expect(await codeOf(writer.write(Buffer.from('third')))).toBe(await codeOf(writer.complete()));
    await writer.abort();
    expect(await keysUnder(destination, '')).toEqual([]);
  });

  it('is not harmed by an attempt that goes on after another has written the file', async () => {
    const sleeper = await begin(randomBytes(1500));
    const bytes = randomBytes(3000);
    const second = await begin(bytes);
    await sleeper.write(randomBytes(1500));
    await second.complete({ replaces: null });
    expect(await codeOf(sleeper.complete({ replaces: null }))).toBe('destination.conflict');
    const lease = { holds: () => false, extend: async () => {} };
    expect(await codeOf(sleeper.complete({ replaces: null, lease }))).toBe('run.lease_lost');
    expect((await readAll(destination, 'x'))?.equals(bytes)).toBe(true);
    await sleeper.abort();
    expect(await keysUnder(destination, '')).toEqual(['x']);
  });

  it('completes a file only if its key holds what is to be replaced', async () => {
    const first = await (await begin('first')).complete({ replaces: null });
    const late = await begin('late');
    expect(await codeOf(late.complete({ replaces: null }))).toBe('destination.conflict');
    const second = await (await begin('second')).complete({ replaces: first.etag });
    expect(second.etag).not.toBe(first.etag);
    expect(await codeOf(late.complete({ replaces: first.etag }))).toBe('destination.conflict');
    expect(String(await readAll(destination, 'x'))).toBe('second');
    await late.abort();
  });

  it('breaks the lock of a manifest that a crash left behind', async () => {
    const { etag } = await commit('{}');
    const lock = join(root, 'acme', '.sluice-m.json.lock');
    await writeFile(lock, '');
    await utimes(lock, 0, 0);
    await commit('{"a":1}', etag);
    expect(await readdir(join(root, 'acme'))).toEqual(['m.json']);
  });

  it('waits for a lock that is held, and then says conflict', async () => {
    const { etag } = await commit('{}');
    await writeFile(join(root, 'acme', '.sluice-m.json.lock'), '');
    expect(await codeOf(commit('{"a":1}', etag))).toBe('destination.conflict');
    expect((await readdir(join(root, 'acme'))).sort()).toEqual(['.sluice-m.json.lock', 'm.json']);
  });

  it('gives a manifest no name once the lease is over', async () => {
    const extend = async () => {};
    const over = { holds: () => false, extend };
    expect(await codeOf(commit('late', null, over))).toBe('run.lease_lost');
    const { etag } = await commit('0', null, { holds: () => true, extend });
    expect(await codeOf(commit('late', etag, over))).toBe('run.lease_lost');
    expect(String(await readAll(destination, 'm.json'))).toBe('0');
    expect(await readdir(join(root, 'acme'))).toEqual(['m.json']);
  });

  it('lets one of many writers replace a manifest', async () => {
    const { etag } = await commit('0');
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, (_, index) => commit(`run ${index}`, etag)),
    );
    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1);
    const winner = outcomes.findIndex((outcome) => outcome.status === 'fulfilled');
    expect(String(await readAll(destination, 'm.json'))).toBe(`run ${winner}`);
  });
});

describe('folders that are named after values', () => {
  const write = async (key: string) => (await begin('a row\n', key)).complete();

  it('go with their last file, and no other folder does', async () => {
    await write('events/person=42/day=1/a.jsonl');
    await write('events/person=42/b.jsonl');
    await destination.deleteFiles(['events/person=42/day=1/a.jsonl']);
    expect(await readdir(join(root, 'acme/events'))).toEqual(['person=42']);
    await destination.deleteFiles(['events/person=42/b.jsonl']);
    expect(await readdir(join(root, 'acme/events'))).toEqual([]);
  });

  it('are made again by a run that writes while they go', async () => {
    const writeAll = async () => {
      for (let row = 0; row < 30; row += 1) await write(`events/person=42/${row}.jsonl`);
    };
    const remove = async () => {
      for (let row = 0; row < 30; row += 1) {
        await write('events/person=42/other.jsonl');
        await destination.deleteFiles(['events/person=42/other.jsonl']);
      }
    };
    await Promise.all([writeAll(), remove()]);
    expect(await keysUnder(destination, 'events/')).toHaveLength(30);
  });
});
