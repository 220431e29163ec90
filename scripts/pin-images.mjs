#!/usr/bin/env node
/**
 * `node scripts/pin-images.mjs`: asks the registries, by `docker buildx imagetools inspect`, which bytes the images of the
 * Dockerfile and of docker-compose.yml are now, and writes their digests to docker-compose.digests.yml. Compose
 * reads it beside the other file: `docker compose -f docker-compose.yml -f docker-compose.digests.yml up --build`.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { parse, stringify } from 'yaml';

const output = 'docker-compose.digests.yml';
const known = new Map();

const [, base] = /^ARG NODE_IMAGE=(\S+)$/m.exec(readFileSync('Dockerfile', 'utf8')) ?? [];
if (!base) fail('The Dockerfile has no ARG NODE_IMAGE.');
const compose = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true });

const services = {};
for (const [name, { image, build }] of Object.entries(compose.services)) {
  services[name] = build
    ? { build: { context: build, args: { NODE_IMAGE: pinned(base) } } }
    : { image: pinned(image) };
}
const note =
  '# Written by scripts/pin-images.mjs. Write it again for security updates: a digest gets none.\n';
writeFileSync(output, note + stringify({ services }, { lineWidth: 0 }));
process.stdout.write(`${output}\n`);

/** The image with its digest, which means the same bytes for ever. */
function pinned(image) {
  if (known.has(image)) return known.get(image);
  const args = ['buildx', 'imagetools', 'inspect', image, '--format', '{{.Manifest.Digest}}'];
  const { status, stdout, stderr, error } = spawnSync('docker', args, { encoding: 'utf8' });
  if (error)
    fail(`docker cannot be started (${error.message}). Install it with its plugin buildx.`);
  if (status !== 0) fail(`${image}: ${stderr.trim()}`);
  const digest = stdout.trim();
  if (!/^sha256:[0-9a-f]{64}$/.test(digest))
    fail(`${image}: docker answers "${digest}", which is no digest.`);
  known.set(image, `${image}@${digest}`);
  return known.get(image);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
