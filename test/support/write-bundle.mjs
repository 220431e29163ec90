/**
 * Joins the programs of the build, and what tests preload into them, into few files: `dist/bundle`. It
 * is the same code, and a program loads in about 60 % of the time. All of it is one build, so that each
 * module exists once: a program and what is preloaded into it share failpoints and error classes.
 *
 * The run's setup starts this as a process of its own: the bundler may keep its process from ending.
 */
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

const root = fileURLToPath(new URL('../..', import.meta.url));
const dist = path.join(root, 'dist');
const folder = path.join(dist, 'bundle');

/** Programs, named as in `dist`, and the module that arms failpoints. */
const entries = {
  'main/all-in-one': path.join(dist, 'main/all-in-one.js'),
  'main/api': path.join(dist, 'main/api.js'),
  'main/worker': path.join(dist, 'main/worker.js'),
  'main/child-run': path.join(dist, 'main/child-run.js'),
  'clients/cli/sluice': path.join(dist, 'clients/cli/sluice.js'),
  failpoints: path.join(root, 'test/support/failpoints/actions.mjs'),
};

/** Packages with native code, or that read files beside their own. */
const external = [
  '@bull-board/api',
  '@bull-board/fastify',
  '@mongodb-js/zstd',
  'fauxqs',
  'libpg-query',
  'node-pg-migrate',
  'snappy',
];

/** Starts another program of the bundle; all other modules find their files in the build. */
const findsPrograms = 'main/worker-process.js';

const keepPlaces = {
  name: 'keep-places',
  transform(code, id) {
    if (!id.startsWith(dist) || !code.includes('import.meta.url')) return null;
    const name = path.relative(dist, id);
    const place = path.join(name === findsPrograms ? folder : dist, name);
    return code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(place).href));
  },
};

/** Whether nothing that the bundle is made of has changed since. */
function isFresh() {
  const made = path.join(folder, 'made');
  if (!existsSync(made)) return false;
  const built = readdirSync(dist, { recursive: true })
    .filter((name) => name.endsWith('.js') && !/^(bundle|s3-server)[/\\]/.test(name))
    .map((name) => path.join(dist, name));
  const origins = [
    ...built,
    entries.failpoints,
    fileURLToPath(import.meta.url),
    path.join(root, 'package-lock.json'),
  ];
  const { mtimeMs } = statSync(made);
  return origins.every((file) => statSync(file).mtimeMs < mtimeMs);
}

if (!isFresh()) {
  await build({
    configFile: false,
    root,
    logLevel: 'error',
    // As Node finds packages, not as browsers and bundlers do.
    resolve: { mainFields: [] },
    ssr: { noExternal: true, external, resolve: { conditions: ['node'] } },
    plugins: [keepPlaces],
    build: {
      ssr: true,
      target: 'node20',
      minify: false,
      outDir: folder,
      emptyOutDir: true,
      rollupOptions: {
        input: entries,
        output: {
          entryFileNames: '[name].js',
          chunkFileNames: 'chunks/[name]-[hash].js',
          // Some errors are reported by the names of their classes.
          keepNames: true,
          // Comments and spaces are half of the text that each start reads.
          minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
        },
      },
    },
  });
  writeFileSync(path.join(folder, 'made'), '');
}
process.exit(0);
