import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';

const root = path.resolve(import.meta.dirname, '../../..');
const output = 'docker-compose.digests.yml';

/** Runs the script on our files, with a `docker` that runs `answer` with the image as `$4`. */
function pin(answer: string) {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-pin-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ['Dockerfile', 'docker-compose.yml']) {
    cpSync(path.join(root, name), path.join(folder, name));
  }
  mkdirSync(path.join(folder, 'bin'));
  writeFileSync(path.join(folder, 'bin/docker'), `#!/bin/sh\n${answer}\n`, { mode: 0o755 });
  const { status, stderr } = spawnSync(
    process.execPath,
    [path.join(root, 'scripts/pin-images.mjs')],
    {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, PATH: `${path.join(folder, 'bin')}:${process.env.PATH}` },
    },
  );
  const file = path.join(folder, output);
  return { status, stderr, written: existsSync(file) ? readFileSync(file, 'utf8') : null };
}

const readText = (name: string) => readFileSync(path.join(root, name), 'utf8');

test('each image, that of the Dockerfile too, gets the digest that the registry names', () => {
  // Another digest for each image: what is hashed is its name.
  const { status, written } = pin(`printf 'sha256:'; printf %s "$4" | sha256sum | cut -c1-64`);
  expect(status).toBe(0);
  const { services } = parse(readText('docker-compose.yml'), { merge: true }) as {
    services: Record<string, { image: string; build?: string }>;
  };
  const [, base] = /^ARG NODE_IMAGE=(\S+)$/m.exec(readText('Dockerfile')) ?? [];
  const pinned = parse(written ?? '') as {
    services: Record<string, { image?: string; build?: { context: string; args: object } }>;
  };
  expect(Object.keys(pinned.services)).toEqual(Object.keys(services));
  const digests = new Set<string>();
  for (const [name, { image, build }] of Object.entries(services)) {
    const found = pinned.services[name];
    if (build === undefined) {
      expect(found?.image).toMatch(new RegExp(`^${image}@sha256:[0-9a-f]{64}$`));
      digests.add(found?.image ?? '');
    } else {
      expect(found).toEqual({
        build: {
          context: build,
          args: { NODE_IMAGE: expect.stringMatching(new RegExp(`^${base}@sha256:[0-9a-f]{64}$`)) },
        },
      });
    }
  }
  expect(digests.size).toBe(3);
});

test.each([
  ['that it knows no such image', 'echo "not found" >&2; exit 1', /not found/],
  ['no digest', 'echo latest', /no digest/],
])('nothing is written if the registry answers %s', (_, answer, message) => {
  const { status, stderr, written } = pin(answer);
  expect([status, written]).toEqual([1, null]);
  expect(stderr).toMatch(message);
});
