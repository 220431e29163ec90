import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { settings } from '../../src/foundation/config/settings.ts';
import { folderOfTest } from '../support/own-folder.ts';

const root = path.resolve(import.meta.dirname, '../..');
const read = (name: string) => readFileSync(path.join(root, name), 'utf8');

interface Service {
  readonly environment?: Readonly<Record<string, unknown>>;
  readonly env_file?: unknown;
  readonly mem_limit?: string;
  readonly pids_limit?: number;
}

const { services } = parse(read('docker-compose.yml'), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
};
const settingsOf = (name: string) => Object.keys(services[name]?.environment ?? {});

describe('docker compose', () => {
  test('gives no service a whole file of settings', () => {
    for (const { env_file } of Object.values(services)) expect(env_file).toBeUndefined();
  });

  test('gives the API and the workers every setting that is theirs', () => {
    // The image sets NODE_ENV.
    const notForContainers = /^(SLUICE_DATA_DIR$|NODE_ENV$)/;
    const wanted = Object.keys(settings).filter((name) => !notForContainers.test(name));
    const given = new Set([...settingsOf('api'), ...settingsOf('worker')]);
    expect([...given].toSorted()).toEqual(wanted.toSorted());
  });

  test('gives a worker no setting of the API, and the API none of a worker', () => {
    const onlyApi = /^(PORT|METRICS_PORT|TRUST_PROXY|RATE_LIMIT_)/;
    const onlyWorker = /^(WORKER_|MAX_ROW_|LOG_RETENTION_|RETENTION_)/;
    expect(settingsOf('worker').filter((name) => onlyApi.test(name))).toEqual([]);
    expect(settingsOf('api').filter((name) => onlyWorker.test(name))).toEqual([]);
  });

  test('gives the migration no secret but that of the database', () => {
    expect(settingsOf('migrate').toSorted()).toEqual(
      [
        'AUTO_MIGRATE',
        'DATABASE_DIRECT_URL',
        'DATABASE_URL',
        'MODELS_FILE',
        'REDIS_URL',
        'SOURCE_DATABASE_URL',
      ].toSorted(),
    );
    expect(services.migrate?.environment?.REDIS_URL).not.toContain('PASSWORD');
  });

  test('gives the servers beside us none of our secrets', () => {
    for (const name of ['postgres', 'redis', 's3']) {
      const values = JSON.stringify(services[name]?.environment);
      expect(values).not.toMatch(/ENCRYPTION_KEYS|DATABASE_URL/);
      if (name !== 'postgres') expect(values).not.toContain('POSTGRES_PASSWORD');
      if (name !== 'redis') expect(values).not.toContain('REDIS_PASSWORD');
      if (name !== 's3') expect(values).not.toContain('S3_SECRET');
    }
  });

  test.each(Object.keys(services))('limits the memory and the processes of %s', (name) => {
    expect(services[name]?.mem_limit).toMatch(/^(\d+[mg]|\$\{WORKER_MEMORY_LIMIT:-\d+m\})$/);
    expect(services[name]?.pids_limit).toBeGreaterThan(0);
  });
});

interface Locked {
  readonly integrity?: string;
  readonly resolved?: string;
  readonly dev?: boolean;
}

describe('the lock file', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  const locked = Object.entries(packages).filter(([name]) => name !== '');

  test('has the checksum of every package, also of binaries for other systems', () => {
    const without = locked.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
    expect(without.map(([name]) => name)).toEqual([]);
  });

  test('names no registry', () => {
    expect(locked.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
  });

  test('needs no S3 server in production', () => {
    expect(packages['node_modules/fauxqs']?.dev).toBe(true);
  });
});

/** Node's answer for a package that is not installed, given for fauxqs. */
const withoutFauxqs = `data:text/javascript,${encodeURIComponent(`
  import { register } from 'node:module';
  const hook = 'export async function resolve(name, context, next) {' +
    'if (name === "fauxqs") throw Object.assign(new Error(name), { code: "ERR_MODULE_NOT_FOUND" });' +
    'return next(name, context); }';
  register('data:text/javascript,' + encodeURIComponent(hook));
`)}`;

test('without its S3 server the quickstart says what to install', () => {
  const folder = folderOfTest();
  const built = JSON.stringify(path.join(root, 'dist/clients/quickstart/local-s3.js'));
  const at = JSON.stringify(folder);
  const program = `import { placeLocalS3, startLocalS3 } from ${built};
    await placeLocalS3(${at});
    await startLocalS3(${at}).catch((error) => console.log(error.name, error.message));`;
  const { stdout } = spawnSync(
    process.execPath,
    ['--import', withoutFauxqs, '--input-type=module', '--eval', program],
    { encoding: 'utf8' },
  );
  expect(stdout).toMatch(/^StartError .*npm ci without --omit=dev/);
});
