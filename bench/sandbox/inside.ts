import { createContext, Script } from 'node:vm';

export interface Measured {
  readonly way: string;
  readonly startMs: number;
  /** Null if it cannot be had; the note says why. */
  readonly rowsPerCoreSecond: number | null;
  readonly note: string;
}

export const plugin = `
export function setupPlugin(meta) {
  meta.global.suffix = '!';
}
export function processEvent(event, { config, global }) {
  event.properties.greeting = config.greeting + global.suffix;
  event.properties.doubled = event.properties.amount * 2;
  return event;
}
`;

/** The same plugin as a script, which reads a batch as JSON and writes it as JSON. */
const batchScript = `
(function () {
  'use strict';
  const config = { greeting: 'hello' };
  function instance() {
    return {
      setupPlugin(meta) { meta.global.suffix = '!'; },
      processEvent(event, { config, global }) {
        event.properties.greeting = config.greeting + global.suffix;
        event.properties.doubled = event.properties.amount * 2;
        return event;
      },
    };
  }
  return function (text) {
    const rows = JSON.parse(text);
    for (let at = 0; at < rows.length; at += 1) {
      const plugin = instance();
      const meta = { config, global: {} };
      plugin.setupPlugin(meta);
      rows[at] = plugin.processEvent(rows[at], meta);
    }
    return JSON.stringify(rows);
  };
})()`;

export function makeEvents(count: number): string[] {
  return Array.from({ length: count }, (_, index) =>
    JSON.stringify({
      uuid: `0190b7a4-8f00-7000-8000-${String(index).padStart(12, '0')}`,
      team_id: 7,
      event: ['$pageview', 'paid', 'sign_up'][index % 3],
      distinct_id: `user-${index % 977}`,
      timestamp: '2024-05-01T10:00:00.123456+00:00',
      inserted_at: '2024-05-01T10:00:01+00:00',
      properties: {
        $current_url: `https://example.com/products/${index}?utm_source=mail&ref=${index}`,
        $ip: '203.0.113.7',
        $browser: 'Chrome',
        $browser_version: 124,
        $os: 'Mac OS X',
        $screen_height: 1080,
        $screen_width: 1920,
        $lib: 'web',
        $session_id: `0190b7a4-${index}`,
        amount: 12.5 + (index % 100),
        currency: 'EUR',
        items: [{ sku: 'a-1', n: 2 }, { sku: 'b-2' }],
        is_new: index % 2 === 0,
        $user_agent:
          'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/124.0.0.0 Safari/537.36',
      },
      person_properties: { email: `u${index}@example.com`, plan: 'pro' },
    }),
  );
}

type Load = (name: string) => unknown;
type RunBatch = (text: string) => string;

/** The ways that are not ours, as far as their packages can be loaded. */
export async function measureInside(
  load: Load,
  events: readonly string[],
  batchRows: number,
): Promise<Measured[]> {
  const ways: [string, () => Promise<RunBatch> | RunBatch][] = [
    ['quickjs-emscripten', () => openQuickJs(load)],
    ['isolated-vm', () => openIsolatedVm(load)],
    ['ses', () => openSes(load)],
  ];
  const results: Measured[] = [];
  for (const [way, open] of ways) {
    const before = performance.now();
    try {
      const run = await open();
      const startMs = performance.now() - before;
      const rowsPerCoreSecond = measure(run, events, batchRows);
      results.push({ way: `${way}, inside only`, startMs, rowsPerCoreSecond, note: '' });
    } catch (error) {
      const [note = ''] = String(error).split('\n');
      results.push({ way, startMs: 0, rowsPerCoreSecond: null, note });
    }
  }
  return results;
}

function measure(run: RunBatch, events: readonly string[], batchRows: number): number {
  const all = () => {
    for (let at = 0; at < events.length; at += batchRows) {
      run(`[${events.slice(at, at + batchRows).join(',')}]`);
    }
  };
  all();
  const start = process.cpuUsage();
  all();
  const { user, system } = process.cpuUsage(start);
  return (events.length / (user + system)) * 1e6;
}

interface QuickJsContext {
  evalCode(code: string): unknown;
  unwrapResult(result: unknown): { dispose(): void };
  newString(text: string): { dispose(): void };
  callFunction(run: unknown, self: unknown, given: unknown): unknown;
  getString(handle: unknown): string;
  readonly undefined: unknown;
}

async function openQuickJs(load: Load): Promise<RunBatch> {
  const { getQuickJS } = load('quickjs-emscripten') as {
    getQuickJS(): Promise<{ newContext(): QuickJsContext }>;
  };
  const context = (await getQuickJS()).newContext();
  const run = context.unwrapResult(context.evalCode(batchScript));
  return (text) => {
    const given = context.newString(text);
    const answer = context.unwrapResult(context.callFunction(run, context.undefined, given));
    given.dispose();
    const written = context.getString(answer);
    answer.dispose();
    return written;
  };
}

interface Isolate {
  createContextSync(): { evalSync(code: string, options: object): Reference };
}

interface Reference {
  applySync(self: undefined, given: readonly string[], options?: object): string;
}

function openIsolatedVm(load: Load): RunBatch {
  const { Isolate } = load('isolated-vm') as {
    Isolate: new (options: { memoryLimit: number }) => Isolate;
  };
  const context = new Isolate({ memoryLimit: 128 }).createContextSync();
  const run = context.evalSync(batchScript, { reference: true });
  return (text) => run.applySync(undefined, [text]);
}

/** A realm of its own, in which `lockdown` of ses freezes the language. */
function openSes(load: Load): RunBatch {
  const { readFileSync } = load('node:fs') as typeof import('node:fs');
  const { resolve } = load as NodeJS.Require;
  const text = readFileSync(resolve('ses/lockdown'), 'utf8');
  const context = createContext({});
  new Script(text.replaceAll(/^'use strict';?/gm, '')).runInContext(context);
  new Script('lockdown({ errorTaming: "unsafe" })').runInContext(context);
  return new Script(batchScript).runInContext(context);
}
