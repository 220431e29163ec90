/**
 * Lists what a production install contains: dist/sbom.cdx.json (CycloneDX, by npm) and dist/licences.md. Both
 * come from the lock file; no network. Exits 1 and names each package whose licence is not allowed.
 *
 *   node scripts/sbom.mjs           writes
 *   node scripts/sbom.mjs --check   writes nothing; checks the licences
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

/** Licences without duties for those who only run the service. */
const allowed = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'MIT-0',
]);

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));

const installed = Object.entries(packages)
  .filter(([place, { dev }]) => place !== '' && dev !== true)
  .map(([place, { version, license, optional }]) => ({
    name: place.split('node_modules/').at(-1),
    version,
    optional: optional === true,
    licence: license ?? licenceOfOwner(place),
  }))
  .toSorted((a, b) => a.name.localeCompare(b.name, 'en'));

/** The binary of another system, whose entry has no licence, has that of the package that wants it. */
function licenceOfOwner(place) {
  const name = place.split('node_modules/').at(-1);
  const owner = Object.values(packages).find((entry) => entry.optionalDependencies?.[name]);
  return owner?.license ?? 'unknown';
}

/** npm's own --omit=dev also leaves out packages that both a development package and we use. */
function withoutDevelopment(sbom) {
  const wanted = new Set(installed.map(({ name, version }) => `${name}@${version}`));
  const components = sbom.components.filter((component) => wanted.has(component['bom-ref']));
  const kept = new Set([sbom.metadata.component['bom-ref'], ...wanted]);
  const dependencies = sbom.dependencies
    .filter(({ ref }) => kept.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((on) => kept.has(on)) }));
  const known = new Set(components.map((component) => component['bom-ref']));
  for (const name of wanted) {
    if (!known.has(name)) throw new Error(`npm sbom does not list ${name}`);
  }
  return { ...sbom, components, dependencies };
}

const refused = installed.filter(({ licence }) => !allowed.has(licence));
for (const { name, version, licence } of refused) {
  process.stdout.write(`${name}@${version} has the licence ${licence}, which is not allowed\n`);
  process.exitCode = 1;
}

if (!process.argv.includes('--check')) {
  const text = execFileSync('npm', ['sbom', '--sbom-format=cyclonedx', '--package-lock-only'], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 ** 2,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const sbom = withoutDevelopment(JSON.parse(text));
  const rows = installed.map(
    ({ name, version, licence, optional }) =>
      `| ${name} | ${version} | ${licence}${optional ? ' (optional)' : ''} |`,
  );
  mkdirSync('dist', { recursive: true });
  writeFileSync('dist/sbom.cdx.json', `${JSON.stringify(sbom, null, 2)}\n`);
  writeFileSync(
    'dist/licences.md',
    `| Package | Version | Licence |\n| --- | --- | --- |\n${rows.join('\n')}\n`,
  );
  process.stdout.write(`dist/sbom.cdx.json, dist/licences.md: ${installed.length} packages\n`);
}
