import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../../support/own-folder.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const files = ['Dockerfile', 'docker-compose.yml'];
const pinnedImage = /([^\s=]+:v?\d[^\s@]*)@(sha256:[0-9a-f]{64})$/gm;

const readAll = (folder: string) =>
  files.map((name) => readFileSync(path.join(folder, name), 'utf8')).join('');

/** Runs the script on our files, with a `docker` that runs `answer` with the image as `$4`. */
function pin(answer: string) {
  const folder = folderOfTest();
  for (const name of files) cpSync(path.join(root, name), path.join(folder, name));
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
  return { status, stderr, text: readAll(folder) };
}

test('each image, that of the Dockerfile too, gets the digest that the registry names', () => {
  // Another digest for each image: what is hashed is its name.
  const { status, text } = pin(`printf 'sha256:'; printf %s "$4" | sha256sum | cut -c1-64`);
  expect(status).toBe(0);
  const digestOf = (image: string) => `sha256:${createHash('sha256').update(image).digest('hex')}`;
  const images = [...text.matchAll(pinnedImage)].map(([, image = '']) => image);
  expect(images.map((image) => image.replace(/:.*/, '')).sort()).toEqual(
    ['node', 'postgres', 'redis', 'versity/versitygw'].sort(),
  );
  const expected = readAll(root).replace(pinnedImage, (_, image) => `${image}@${digestOf(image)}`);
  expect(text).toBe(expected);
});

test.each([
  ['that it knows no such image', 'echo "not found" >&2; exit 1', /not found/],
  ['no digest', 'echo latest', /no digest/],
  [
    'for one image only',
    `case "$4" in node*) echo sha256:${'0'.repeat(64)};; *) exit 1;; esac`,
    /postgres/,
  ],
])('nothing changes if the registry answers %s', (_, answer, message) => {
  const { status, stderr, text } = pin(answer);
  expect([status, text]).toEqual([1, readAll(root)]);
  expect(stderr).toMatch(message);
});
