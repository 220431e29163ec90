#!/usr/bin/env node
/**
 * `node scripts/pin-images.mjs`: asks the registries, by `docker buildx imagetools inspect`, which bytes the tags of the
 * Dockerfile and of docker-compose.yml mean now, and writes their digests into these files. If one
 * cannot be had, it changes none.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const places = [
  ['Dockerfile', /^(ARG NODE_IMAGE=)([^\s@]+)(@\S+)?$/gm],
  // Those that are built here have a variable in their names.
  ['docker-compose.yml', /^( +image: )([^\s@$]+)(@\S+)?$/gm],
];
const known = new Map();

const written = places.map(([file, line]) => {
  const text = readFileSync(file, 'utf8');
  return [file, text.replace(line, (_, head, image) => `${head}${image}@${digestOf(image)}`)];
});
for (const [file, text] of written) writeFileSync(file, text);
for (const [image, digest] of known) process.stdout.write(`${image}@${digest}\n`);

/** A digest means the same bytes for ever. */
function digestOf(image) {
  if (known.has(image)) return known.get(image);
  const args = ['buildx', 'imagetools', 'inspect', image, '--format', '{{.Manifest.Digest}}'];
  const { status, stdout, stderr, error } = spawnSync('docker', args, { encoding: 'utf8' });
  if (error)
    fail(`docker cannot be started (${error.message}). Install it with its plugin buildx.`);
  if (status !== 0) fail(`${image}: ${stderr.trim()}`);
  const digest = stdout.trim();
  if (!/^sha256:[0-9a-f]{64}$/.test(digest))
    fail(`${image}: docker answers "${digest}", which is no digest.`);
  known.set(image, digest);
  return digest;
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
