import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { runCli } from '../../support/cli.ts';
import {
  bucket,
  type Installation,
  region,
  startInstallation,
} from '../../support/installation.ts';
import { testServer } from '../../support/database.ts';
import { withClient } from '../../support/drop-database.ts';
import { projectRoot } from '../../support/processes.ts';
import { fillShop } from '../../support/stranger-shop.ts';
import { createKey } from '../../support/tenants.ts';
import { folderOfTests } from '../../support/own-folder.ts';

/**
 * Runs every example of docs/cli.md against a real service, in their order, and compares what they print with
 * the page. `npx vitest run --update` with this file writes the page anew.
 */

const page = path.join(projectRoot, 'docs/cli.md');
let installation: Installation;
const folder = folderOfTests();
let env: Record<string, string>;

/** As docs/operate.md recommends it for the role that reads the source. */
const changeRole = (verb: string) => {
  const { adminUrl, owner } = testServer();
  return withClient(adminUrl, (admin) => admin.query(verb.replace('{role}', owner.name)));
};

beforeAll(async () => {
  await changeRole('GRANT pg_read_all_stats TO {role}');
  installation = await startInstallation({ workers: 1 });
  const { db, tenant, s3, client, shop } = installation;
  const { organizationId, projectIds } = tenant;
  const given = { organizationId, projectIds: [projectIds[0]], name: 'cli' };
  const { key } = await createKey(db, given);
  env = {
    ...{ ...installation.env, SLUICE_URL: client.baseUrl, SLUICE_KEY: key },
    ...{ S3_ENDPOINT: s3.endpoint, S3_BUCKET: bucket, S3_REGION: region },
    AWS_ACCESS_KEY_ID: installation.secrets.get('the access key id') ?? '',
    AWS_SECRET_ACCESS_KEY: installation.secrets.get('the secret access key') ?? '',
  };
  await fillShop(shop, String(tenant.projectIds[0]), { rows: 300, hours: 3 });
});
afterAll(async () => {
  await installation?.close();
  await changeRole('REVOKE pg_read_all_stats FROM {role}');
});

/** The words of a command line, with quotes and the variables of the page's shell. */
function wordsOf(line: string, variables: ReadonlyMap<string, string>): string[] {
  const words = line.match(/(?:'[^']*'|"[^"]*"|[^\s'"]+)+/g) ?? [];
  return words.map((word) =>
    word
      .replaceAll(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double)
      .replaceAll(/\$([A-Z_]+)/g, (whole, name) => variables.get(name) ?? whole),
  );
}

const ids = new Map<string, string>();

/** Ids, times and the like are others each time: replaces them by some of the same width. */
function mask(output: string): string {
  const uuid = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;
  return (
    output
      .replaceAll(uuid, (found) => {
        const known =
          ids.get(found) ?? `3f0cf0b7-5a2c-4e0e-9d0e-${String(ids.size + 1).padStart(12, '0')}`;
        ids.set(found, known);
        return known;
      })
      .replaceAll(/\b(?!2024-03-0\d)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/g, '2024-03-02T09:00:00')
      .replaceAll(/(?<=T\d\d:\d\d:\d\d)\.\d{6}(?=Z)/g, '.000000')
      .replaceAll(/\b[0-9a-f]{64}\b/g, (found) =>
        `${'e3b0c44298fc1c14'.repeat(4)}`.slice(0, found.length),
      )
      .replaceAll(/\bslc_[\w-]+/g, 'slc_…')
      .replaceAll(/\blocalhost:\d+|127\.0\.0\.1:\d+/g, '127.0.0.1:8000')
      .replaceAll(/PostgreSQL [\d.]+/g, 'PostgreSQL 18.1')
      // The retried run may still be live.
      .replaceAll(/\d running · \d waiting/g, '0 running · 0 waiting')
      .replaceAll(/^ {0,2}\d{1,2}% {2}.*\n/gm, '')
  );
}

/** Variables that the page sets from an answer: `RUN=$(sluice … --json | jq -r '.[0].id')`. */
const assignment = /^(?:export )?([A-Z_]+)=\$\((.*?) \| jq -r '?\.(?:\[(\d)\]\.)?(\w+)'?\)$/;

test('every example of docs/cli.md prints what the page says', async () => {
  const text = await readFile(page, 'utf8');
  const variables = new Map<string, string>();
  let lastCode = 0;
  const here = process.cwd();
  process.chdir(folder);
  const run = async (line: string) => {
    const [program, ...args] = wordsOf(line, variables);
    expect(program, line).toBe('sluice');
    return runCli(args, { env });
  };
  const answer = async (line: string): Promise<string> => {
    if (line === 'echo $?') return `${lastCode}\n`;
    if (line.startsWith('unset ')) {
      delete env[line.slice('unset '.length)];
      return '';
    }
    const [, name, command, index, field] = assignment.exec(line) ?? [];
    if (name !== undefined && command !== undefined && field !== undefined) {
      const { out, output } = await run(command);
      const found = JSON.parse(out);
      const value = (index === undefined ? found : found[Number(index)])?.[field];
      expect(value, output).toBeDefined();
      if (line.startsWith('export ')) env[name] = String(value);
      variables.set(name, String(value));
      return '';
    }
    const [call = '', target] = line.split(' > ');
    const { code, out, output } = await run(call);
    lastCode = code;
    if (target === undefined) return mask(output);
    await writeFile(target, out);
    return '';
  };
  onTestFinished(() => void process.chdir(here));
  const parts = text.split(/(```(?:console|yaml)\n[\s\S]*?```\n)/);
  const written: string[] = [];
  for (const part of parts) {
    const [, kind, body = ''] = /^```(console|yaml)\n([\s\S]*?)```\n$/.exec(part) ?? [];
    const [, file] = /^# (\S+\.yaml)\n/.exec(body) ?? [];
    if (kind === 'yaml' && file !== undefined) await writeFile(file, body);
    if (kind !== 'console') {
      written.push(part);
      continue;
    }
    let block = '';
    for (const line of body.split('\n').filter((one) => one.startsWith('$ '))) {
      block += `${line}\n${await answer(line.slice(2))}`;
    }
    written.push(`\`\`\`console\n${block}\`\`\`\n`);
  }
  await expect(written.join('')).toMatchFileSnapshot(page);
});
