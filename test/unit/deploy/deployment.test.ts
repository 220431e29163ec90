import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { settings } from '../../../src/foundation/config/settings.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const read = (name: string) => readFileSync(path.join(root, name), 'utf8');

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, unknown>>;
  readonly env_file?: unknown;
  readonly mem_limit?: string;
  readonly pids_limit?: number;
  readonly ports?: readonly string[];
  readonly container_name?: string;
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly disable?: boolean };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}

const compose = parse(read('docker-compose.yml'), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
};
const service = (name: string): Service => {
  const found = compose.services[name];
  if (!found) throw new Error(`docker-compose.yml has no service ${name}`);
  return found;
};
const settingsOf = (name: string) => Object.keys(service(name).environment ?? {});
const ours = ['migrate', 'api', 'worker'];

/** `40s` and `40` → 40. */
const seconds = (text: string | undefined) => Number(/^(\d+)s?$/.exec(text ?? '')?.[1]);
const graceSeconds = Number(settings.SHUTDOWN_GRACE_SECONDS.defaultText);

/** The program of a command line, as it is called before the build. */
function sourceOf(command: string): string {
  const built = /dist\/(\S+)\.js/.exec(command)?.[1];
  return `src/${built}.ts`;
}

describe('docker-compose.yml', () => {
  test('pins every image of others', () => {
    for (const [name, { image }] of Object.entries(compose.services)) {
      if (!ours.includes(name)) expect(image).toMatch(/:v?\d+\.\d+[^@]*@sha256:[0-9a-f]{64}$/);
    }
  });

  test('starts programs that exist', () => {
    for (const name of ours) {
      expect(existsSync(path.join(root, sourceOf(service(name).command?.join(' ') ?? '')))).toBe(
        true,
      );
    }
  });

  test('migrates once, before the API and the workers, and waits for what it depends on', () => {
    expect(service('migrate').environment?.AUTO_MIGRATE).toBe('false');
    expect(service('migrate').depends_on).toEqual({ postgres: { condition: 'service_healthy' } });
    for (const name of ['api', 'worker']) {
      expect(service(name).environment?.AUTO_MIGRATE).toBe('false');
      expect(service(name).depends_on).toEqual({
        postgres: { condition: 'service_healthy' },
        redis: { condition: 'service_healthy' },
        migrate: { condition: 'service_completed_successfully' },
      });
    }
    for (const name of ['postgres', 'redis', 's3']) {
      expect(service(name).healthcheck).toBeDefined();
      expect(service(name).healthcheck?.disable).toBeUndefined();
    }
  });

  test('lets workers be scaled: no setting of theirs allows only one', () => {
    expect(service('worker').container_name).toBeUndefined();
    expect(service('worker').ports).toBeUndefined();
  });

  test('publishes no port beyond this machine, and neither database at all', () => {
    for (const [name, { ports = [] }] of Object.entries(compose.services)) {
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
      if (name === 'postgres' || name === 'redis') expect(ports).toEqual([]);
    }
  });

  test('runs a Redis that keeps its jobs', () => {
    const command = service('redis').command?.join(' ');
    expect(command).toContain('--appendonly yes');
    expect(command).toContain('--maxmemory-policy noeviction');
  });

  test('takes every variable it needs from what .env.example names', () => {
    const known = new Set(read('.env.example').match(/^#? ?[A-Z][A-Z0-9_]+(?==)/gm) ?? []);
    const names = [...known].map((name) => name.replace(/^#? ?/, ''));
    const needed = [...read('docker-compose.yml').matchAll(/(?<!\$)\$\{([A-Z0-9_]+)/g)];
    expect(names).toEqual(expect.arrayContaining(needed.map(([, name]) => name)));
  });

  test('gives no service a whole file of settings', () => {
    for (const { env_file } of Object.values(compose.services)) expect(env_file).toBeUndefined();
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
    expect(service('migrate').environment?.REDIS_URL).not.toContain('PASSWORD');
  });

  test('gives the servers beside us none of our secrets', () => {
    for (const name of ['postgres', 'redis', 's3']) {
      const values = JSON.stringify(service(name).environment);
      expect(values).not.toMatch(/ENCRYPTION_KEYS|DATABASE_URL/);
      if (name !== 'postgres') expect(values).not.toContain('POSTGRES_PASSWORD');
      if (name !== 'redis') expect(values).not.toContain('REDIS_PASSWORD');
      if (name !== 's3') expect(values).not.toContain('S3_SECRET');
    }
  });

  test.each(Object.keys(compose.services))('limits the memory and the processes of %s', (name) => {
    expect(service(name).mem_limit).toMatch(/^(\d+[mg]|\$\{WORKER_MEMORY_LIMIT:-\d+m\})$/);
    expect(service(name).pids_limit).toBeGreaterThan(0);
  });
});

test('the service manager that stops a process waits longer than the process may take to hand its work back', () => {
  for (const name of ['api', 'worker']) {
    expect(seconds(service(name).stop_grace_period)).toBeGreaterThan(graceSeconds);
  }
  for (const unit of ['sluice-api.service', 'sluice-worker@.service']) {
    const [, stop] = /^TimeoutStopSec=(\d+)$/m.exec(read(`deploy/systemd/${unit}`)) ?? [];
    expect(seconds(stop)).toBeGreaterThan(graceSeconds);
  }
  const [, kill] = /kill_timeout: ([\d_]+)/.exec(read('deploy/ecosystem.config.cjs')) ?? [];
  expect(Number(kill?.replaceAll('_', '')) / 1_000).toBeGreaterThan(graceSeconds);
});

// The settings of a file come before those of the unit: with its port, only one worker of a machine would start.
test('each worker of a machine has a port of its own, which is not METRICS_PORT, whatever port the settings of all have', () => {
  const [, metricsPort] = /^METRICS_PORT=(\d+)$/m.exec(read('docs/operate.md')) ?? [];
  const unit = read('deploy/systemd/sluice-worker@.service');
  expect(unit).not.toMatch(/^Environment=.*WORKER_PORT/m);
  const [, command = ''] = /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(unit) ?? [];
  const portOf = (instance: number) => {
    // As systemd reads it; the program prints its port.
    const line = command.replaceAll('%i', String(instance)).replaceAll('$$', '$');
    const shown = line.replace(/ node .*/, ' sh -c "echo \\$WORKER_PORT"');
    return execFileSync('sh', ['-c', shown], { encoding: 'utf8' }).trim();
  };
  const ports = Array.from({ length: 12 }, (_, index) => portOf(index + 1));
  expect(ports).toEqual(ports.map((_, index) => String(Number(metricsPort) + 1 + index)));
  const pm2 = read('deploy/ecosystem.config.cjs');
  expect(pm2).toMatch(/increment_var: 'WORKER_PORT'/);
  expect(pm2).toContain(`WORKER_PORT: ${Number(metricsPort) + 1} }`);
});

// With NODE_ENV=production, which the settings have, npm leaves out what the build needs.
test.each(['docs/operate.md', 'docs/upgrade.md', 'deploy/README.md'])(
  '%s brings the packages of the build, whatever the settings in the shell are',
  (page) => {
    expect(read(page)).toContain('npm ci --include=dev && npm run build');
    expect(read(page)).not.toContain('npm ci && npm run build');
  },
);

describe('npm start and similar scripts', () => {
  const { scripts, bin } = JSON.parse(read('package.json')) as {
    scripts: Record<string, string>;
    bin: Record<string, string>;
  };

  // npm sets it only once: after `npm run clean && npm run build`, `npx sluice` said "Permission denied".
  test('npm run build makes the programs of the package executable', () => {
    for (const program of Object.values(bin)) {
      expect(scripts.build).toContain(`tsc -p tsconfig.build.json && chmod +x ${program}`);
      expect(read(sourceOf(program))).toMatch(/^#!\/usr\/bin\/env node\n/);
    }
  });

  // npm passes a signal to its shell alone: a shell that stays in between dies and leaves Node behind.
  test.each(['start', 'start:api', 'start:worker', 'quickstart'])(
    'npm run %s puts Node instead of the shell, so that SIGTERM reaches it',
    (name) => {
      expect(scripts[name]).toMatch(/&& exec node dist\/\S+\.js[^&|;]*$/);
    },
  );
});

test.each([
  ['Procfile', 2],
  ['Dockerfile', 1],
  ['deploy/systemd/sluice-api.service', 1],
  ['deploy/systemd/sluice-worker@.service', 1],
  ['deploy/ecosystem.config.cjs', 2],
])('the programs that are started in %s are there after a build', (name, count) => {
  const programs = read(name).match(/dist\/main\/\S+?\.js/g) ?? [];
  expect(programs).toHaveLength(count);
  for (const program of programs) {
    expect(existsSync(path.join(root, sourceOf(program)))).toBe(true);
  }
});

describe('the Dockerfile', () => {
  const lines = read('Dockerfile').split('\n');
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM')));

  test('runs as a user who is not root, without development packages, and has a health check', () => {
    expect(last.filter((line) => line.startsWith('USER'))).toEqual(['USER node']);
    expect(last.join('\n')).toContain('npm ci --omit=dev');
    expect(last.some((line) => line.startsWith('HEALTHCHECK'))).toBe(true);
  });

  test('starts Node without a shell in between, so that signals reach it', () => {
    const commands = last.filter((line) => /^(CMD|ENTRYPOINT)/.test(line));
    expect(commands).toHaveLength(1);
    expect(commands[0]).toMatch(/^CMD \["node", /);
  });

  test('copies nothing that .dockerignore keeps out, and .dockerignore keeps out what it does not name', () => {
    const [first, ...allowed] = read('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(first).toBe('*');
    const sources = lines
      .filter((line) => line.startsWith('COPY') && !line.includes('--from'))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(sources.length).toBeGreaterThan(5);
    for (const source of sources.filter((name) => !name.includes('*'))) {
      expect(existsSync(path.join(root, source))).toBe(true);
      expect(allowed).toContain(`!${source}`);
    }
  });

  test('copies the files beside the build that programs read', () => {
    const asked = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) =>
        [
          ...read(path.join('src', file)).matchAll(
            /\(\s*['"`]((?:\.\.\/)+[\w./-]+)\$?.*import\.meta/g,
          ),
        ]
          .map(([, name]) => path.join('src', path.dirname(file), name ?? ''))
          .filter((name) => !name.startsWith('src/')),
      );
    expect(asked).toEqual(expect.arrayContaining(['migrations', 'client/check/']));
    const copied = last.filter((line) => line.startsWith('COPY')).join('\n');
    for (const name of asked) expect(copied).toContain(` ${name.replace(/\/$/, '')} `);
  });
});

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

describe('the monitoring of a deployment', () => {
  const defined = new Set(
    readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => [
        ...read(path.join('src', file)).matchAll(
          /(?:name: |(?:counter|gauge)\(\s*)'(sluice_[a-z_]+)'/g,
        ),
      ])
      .map(([, name]) => name ?? ''),
  );
  const alerts = parse(read('deploy/prometheus/alerts.yml')) as {
    readonly groups: readonly { readonly rules: readonly Rule[] }[];
  };
  const dashboard = JSON.parse(read('deploy/grafana/sluice.json')) as {
    readonly panels: readonly { title: string; targets: readonly { expr: string }[] }[];
  };
  const expressions = [
    ...alerts.groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => [alert, expr] as const)),
    ...dashboard.panels.flatMap(({ title, targets }) =>
      targets.map(({ expr }) => [title, expr] as const),
    ),
  ];

  test('asks for metrics that exist, and for every one of ours', () => {
    expect(defined.size).toBeGreaterThan(10);
    const asked = new Set<string>();
    for (const [title, expression] of expressions) {
      for (const [name] of expression.matchAll(/\bsluice_[a-z_]+/g)) {
        const metric = name.replace(/_(bucket|count|sum)$/, '');
        expect(defined, `${title} asks for ${metric}`).toContain(metric);
        asked.add(metric);
      }
    }
    expect([...defined].filter((name) => !asked.has(name))).toEqual([]);
  });

  test('has a section of the runbook for each alert, which its runbook_url names, and no other', () => {
    const rules = alerts.groups.flatMap((group) => group.rules);
    const sections = [...read('docs/runbook.md').matchAll(/^## (.+)$/gm)].map(([, title]) => title);
    expect(sections).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, annotations } of rules) {
      expect(annotations.runbook_url).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
      expect(annotations.summary).toBeTruthy();
    }
  });

  test('fires for one export among any number', () => {
    const rules = alerts.groups.flatMap((group) => group.rules);
    const exprOf = (name: string) => rules.find(({ alert }) => alert === name)?.expr;
    expect(exprOf('SluiceExportFailing')).toBe('max(sluice_failing_exports{fault="internal"}) > 0');
    expect(exprOf('SluiceExportLate')).toBe('max(sluice_late_exports{fault="internal"}) > 0');
    expect(exprOf('SluiceExportPaused')).toBe(
      'max(sluice_paused_exports{by="sluice", fault="internal"}) > 0',
    );
    expect(exprOf('SluiceRetriesExhausted')).toBe(
      'max(sluice_retries_exhausted_exports{fault="internal"}) > 0',
    );
  });

  test('scrapes by the names that its expressions filter by', () => {
    const { scrape_configs: scrapes } = parse(read('deploy/prometheus/prometheus.yml')) as {
      readonly scrape_configs: readonly { readonly job_name: string }[];
    };
    for (const { job_name: job } of scrapes) expect(job).toMatch(/^sluice-/);
  });
});
