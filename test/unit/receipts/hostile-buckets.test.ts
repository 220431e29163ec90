import { execFile } from 'node:child_process';
import { mkdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { hasPython } from '../../support/both-checkers.ts';
import { DeliveryHistory } from '../../support/delivery-history.ts';
import { folderOfTest } from '../../support/own-folder.ts';
import { listenInTest } from '../../support/use-stage.ts';

const checkers = path.resolve(import.meta.dirname, '../../../client/check');
const statement = 'events/_sluice/statements/1.json';

function history() {
  const made = new DeliveryHistory({ format: 'csv.gz' });
  made.deliver(2, 1);
  made.state();
  return made;
}

interface Printed {
  readonly code: number;
  readonly text: string;
}

/** Both command lines with the same arguments. Neither may print a stack. */
async function runBoth(...args: string[]): Promise<readonly [Printed, Printed]> {
  const run = (program: string, file: string) =>
    new Promise<Printed>((resolve) => {
      execFile(program, [path.join(checkers, file), ...args], (error, out, errors) => {
        expect(/Traceback|\n +at /.test(out + errors)).toBe(false);
        resolve({ code: error ? Number(error.code) : 0, text: out + errors });
      });
    });
  const javaScript = run(process.execPath, 'sluice-check.mjs');
  return Promise.all([javaScript, hasPython ? run('python3', 'sluice_check.py') : javaScript]);
}
const codes = async (...args: string[]) => (await runBoth(...args)).map(({ code }) => code);

async function folderOf({ objects }: DeliveryHistory) {
  const folder = folderOfTest();
  for (const [key, bytes] of objects) {
    await mkdir(path.join(folder, path.dirname(key)), { recursive: true });
    await writeFile(path.join(folder, key), bytes);
  }
  return folder;
}

test('a copy of the place is checked, with its key and its head', async () => {
  const made = history();
  const folder = path.join(await folderOf(made), 'events');
  const head = `${made.head?.number}:${made.head?.sha256}`;
  const key = made.newestKey().fingerprint;
  expect(await codes(folder, '--deep')).toEqual([0, 0]);
  expect(await codes(folder, '--head', head, '--key', key)).toEqual([0, 0]);
  expect(await codes(folder, '--key', 'abcd')).toEqual([1, 1]);
  expect(await codes(folder, '--head', `2:${made.head?.sha256}`)).toEqual([1, 1]);
});

test('wrong arguments, an empty folder and a missing one cannot be checked', async () => {
  const folder = await folderOf(new DeliveryHistory());
  for (const args of [
    [],
    [folder],
    [`${folder}/missing`],
    [folder, folder],
    [folder, '--since', 'yesterday'],
    [folder, '--since', '2026-02-30'],
    [folder, '--unknown'],
  ])
    expect([args, await codes(...args)]).toEqual([args, [2, 2]]);
});

test('no link is followed, and no pipe is read', async () => {
  const above = await folderOf(history());
  const folder = path.join(above, 'events');
  const outside = await folderOf(history());
  await symlink(outside, path.join(folder, 'more'));
  expect(await codes(folder)).toEqual([0, 0]);
  const [key] = [...history().objects.keys()].filter((one) => one.endsWith('_manifest.json'));
  const file = path.join(above, key ?? '');
  await rm(file);
  await symlink(path.join(outside, key ?? ''), file);
  expect(await codes(folder)).toEqual([1, 1]);
  await rm(file);
  await promisify(execFile)('mkfifo', [file]);
  expect(await codes(folder)).toEqual([1, 1]);
  await rename(path.join(folder, '_sluice/statements'), path.join(above, 'elsewhere'));
  await symlink(path.join(above, 'elsewhere'), path.join(folder, '_sluice/statements'));
  expect(await codes(folder)).toEqual([2, 2]);
});

test('an object of a terabyte is not read whole', async () => {
  for (const name of ['events/_sluice/keys.json', statement]) {
    const folder = await folderOf(history());
    await truncate(path.join(folder, name), 2 ** 40);
    expect(await codes(path.join(folder, 'events'))).toEqual([1, 1]);
  }
});

test('names in objects print no escape of a terminal', async () => {
  const made = history();
  made.objects.set('events/\u001b[2Jx', Buffer.from('x'));
  for (const { code, text } of await runBoth(path.join(await folderOf(made), 'events'))) {
    expect(code).toBe(1);
    expect(text.includes('\u001b')).toBe(false);
  }
});

type Answer = (key: string, response: ServerResponse) => boolean;

/** Serves the bucket to who has the right query. `answer` may answer instead. */
async function serve({ objects }: DeliveryHistory, answer: Answer = () => false) {
  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url ?? '', 'http://localhost');
    const key = decodeURIComponent(pathname).slice(1);
    const bytes = objects.get(key);
    if (answer(key, response)) return;
    if (search !== '?sig=a%2Fb' || !bytes) response.writeHead(403).end();
    else response.end(bytes);
  });
  const base = `http://127.0.0.1:${await listenInTest(server)}`;
  return { address: `${base}/events?sig=a%2Fb`, base };
}

test('an address keeps its query, and a list of addresses is taken', async () => {
  const made = history();
  const { address, base } = await serve(made);
  expect(await codes(address, '--deep')).toEqual([0, 0]);
  expect(await codes(address.replace('sig', 'other'))).toEqual([2, 2]);
  const folder = await folderOf(made);
  const urls = path.join(folder, 'urls.json');
  const addresses = [...made.objects.keys()].map((key) => [
    key.slice('events/'.length),
    `${base}/${key}?sig=a%2Fb`,
  ]);
  await writeFile(urls, JSON.stringify(Object.fromEntries(addresses)));
  expect(await codes(urls, '--deep')).toEqual([0, 0]);
});

const hostile: Readonly<Record<string, readonly [Answer, number]>> = {
  'an object without an end': [
    (_, response) => {
      response.setHeader('content-length', 2 ** 40);
      const chunk = Buffer.alloc(2 ** 20, 0x5b);
      const more = () => {
        while (!response.destroyed && response.write(chunk));
        response.once('drain', more);
      };
      more();
      return true;
    },
    1,
  ],
  'an object without a size': [(_, response) => Boolean(response.write('[')), 2],
  'an answer that ends early': [
    (_, response) => {
      response.setHeader('content-length', 1_000);
      return Boolean(response.write('[', () => response.destroy()));
    },
    2,
  ],
  'a redirect': [
    (_, response) => Boolean(response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()),
    2,
  ],
  'an error of the store': [(_, response) => Boolean(response.writeHead(500).end()), 2],
};

test('a hostile server crashes no checker', async () => {
  const found = Object.entries(hostile).map(async ([name, [answer]]) => {
    const { address } = await serve(
      history(),
      (key, response) => key.endsWith('1.json') && answer(key, response),
    );
    return [name, await codes(address)];
  });
  expect(await Promise.all(found)).toEqual(
    Object.entries(hostile).map(([name, [, code]]) => [name, [code, code]]),
  );
});
