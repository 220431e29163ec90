/**
 * `npm run recording` writes docs/images/recording.svg: a real run of the quickstart that is killed with kill -9 in the middle of
 * an export, the start after it, and `sluice verify`. It needs what `npm run build` made. Look at the picture before you commit it.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const root = path.resolve(import.meta.dirname, '..');
const picture = path.join(root, 'docs/images/recording.svg');
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-recording-'));
const port = await findPort();
const env = {
  ...process.env,
  ...{ SLUICE_DATA_DIR: folder, PORT: String(port), LEASE_SECONDS: '5', LOG_LEVEL: 'warn' },
  ...{ DATABASE_URL: '', SOURCE_DATABASE_URL: '', REDIS_URL: '', NO_COLOR: '1' },
};
const begin = performance.now();
const children = [];
/** Lines with the second at which they came. */
const lines = [];
const show = (text, kind = 'out') =>
  lines.push({ at: (performance.now() - begin) / 1_000, kind, text });

try {
  await record();
} finally {
  for (const child of children.filter(
    ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
  )) {
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
  }
  rmSync(folder, { recursive: true, force: true });
}
writeFileSync(picture, draw(lines));
process.stdout.write(`${lines.map(({ text }) => text).join('\n')}\n`);

async function record() {
  // `npm run recording -- --rows 40000`
  const more = process.argv.slice(2);
  show(['npx sluice quickstart', ...more, '&'].join(' '), 'command');
  const first = start(
    'clients/cli/sluice.js',
    ['quickstart', ...more],
    /^(Writing|Creating|Backfilling) /,
  );
  const before = await until(async () => {
    const runs = await listRuns();
    const completed = runs.filter(({ status }) => status === 'Completed').length;
    const running = runs.filter(({ status }) => status === 'Running').length;
    return completed >= 6 && completed <= 20 && running > 0 ? { completed, running } : null;
  });
  show('kill -9 %1', 'command');
  first.kill('SIGKILL');
  await new Promise((resolve) => first.once('exit', resolve));
  show(
    `Killed: ${before.completed} of 24 hours delivered, ${before.running} being written`,
    'note',
  );
  show('npm start &', 'command');
  start('main/all-in-one.js', [], /^ready /);
  await until(async () => {
    const runs = await listRuns();
    return runs.filter(({ status }) => status === 'Completed').length >= 24 || null;
  });
  show('npx sluice verify', 'command');
  const verify = start('clients/cli/sluice.js', ['verify'], /proven/);
  const code = await new Promise((resolve) => verify.once('exit', resolve));
  if (code !== 0) throw new Error('verify has not proven the export');
}

/** Starts a program of ours and shows the lines of its output that match. */
function start(program, args, shown) {
  const child = spawn(process.execPath, [path.join(root, 'dist', program), ...args], { env });
  children.push(child);
  let rest = '';
  child.stderr.pipe(process.stderr);
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const whole = (rest + text).split('\n');
    rest = whole.pop();
    for (const line of whole) {
      // The ids are others each time.
      if (shown.test(line)) show(line.trimEnd().replace(/ \([0-9a-f-]{36}\)/, ''));
    }
  });
  return child;
}

/** The runs of the first export of the quickstart; none before it is made. */
async function listRuns() {
  const { key, projectId } = JSON.parse(readFileSync(path.join(folder, 'quickstart.json'), 'utf8'));
  const get = async (address) => {
    const url = `http://127.0.0.1:${port}/api/projects/${projectId}/batch_exports${address}`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    return (await answer.json()).results ?? [];
  };
  const exports = await get('');
  return exports.length === 0 ? [] : get(`/${exports.at(-1).id}/runs`);
}

async function until(look) {
  for (const deadline = Date.now() + 1_800_000; Date.now() < deadline; await sleep(50)) {
    const seen = await look().catch(() => null);
    if (seen !== null) return seen;
  }
  throw new Error('it took longer than half an hour');
}

async function findPort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port: free } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return free;
}

/** A terminal of its own colours, so that it is readable on a light and on a dark page. Waits are shortened to a second. */
function draw(recorded) {
  const all = recorded.flatMap((line) =>
    (line.text.match(/.{1,92}(?:\s|$)/g) ?? [line.text]).map((text) => ({
      ...line,
      text: text.trimEnd(),
    })),
  );
  let shown = 0.5;
  let last = 0;
  const [size, step, left, top] = [15, 24, 20, 52];
  const width = 40 + Math.max(...all.map(({ text }) => text.length + 2)) * size * 0.602;
  const height = top + all.length * step + 8;
  const texts = all.map(({ at, kind, text }, index) => {
    shown += Math.min(Math.max(at - last, kind === 'command' ? 0.8 : 0.15), 1.2);
    last = at;
    const [prompt, color] = { command: ['$ ', '#e6edf3'], note: ['', '#ff8a80'] }[kind] ?? [
      '',
      /proven/.test(text) ? '#7ee787' : '#9aa7b4',
    ];
    const y = top + index * step + size;
    return `<text class="l" style="animation-delay:${shown.toFixed(2)}s" x="${left}" y="${y}" fill="${color}">${inXml(prompt + text)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${Math.ceil(width)} ${height}" role="img" aria-label="A terminal: the quickstart is killed with kill -9 in the middle of an export. After the next start, sluice verify says that every row is proven.">
<style>
text{font:${size}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}
.l{opacity:0;animation:show .01s linear forwards}
@keyframes show{to{opacity:1}}
@media (prefers-reduced-motion:reduce){.l{opacity:1;animation:none}}
</style>
<rect width="100%" height="100%" rx="10" fill="#161b22" stroke="#30363d"/>
<circle cx="24" cy="22" r="6" fill="#ff5f57"/><circle cx="44" cy="22" r="6" fill="#febc2e"/><circle cx="64" cy="22" r="6" fill="#28c840"/>
${texts.join('\n')}
</svg>
`;
}

function inXml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
