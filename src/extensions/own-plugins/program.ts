import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { transform } from 'sucrase';

/**
 * Of the sandbox's process, and of the plugin's realm in it. A text needs no access to files, and runs the same from a
 * build and from TypeScript.
 */
export interface Programs {
  readonly child: string;
  readonly realm: string;
}

let programs: Promise<Programs> | null = null;

/** The first call takes some tenths of a second of a processor, a turn of the event loop for each file. */
export function makePrograms(): Promise<Programs> {
  programs ??= make();
  return programs;
}

async function make(): Promise<Programs> {
  return {
    child: `${await join('child/main')}.serve();`,
    realm: await join('realm/main', 'undefined'),
  };
}

async function join(entry: string, builtIns = 'require'): Promise<string> {
  const modules = new Map<string, string>();
  const extension = path.extname(fileURLToPath(import.meta.url));
  const queue = [entry];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    if (modules.has(name)) continue;
    await nextTurn();
    const folder = path.posix.dirname(name);
    const file = fileURLToPath(new URL(`./${name}${extension}`, import.meta.url));
    const { code } = transform(readFileSync(file, 'utf8'), {
      transforms: extension === '.ts' ? ['typescript', 'imports'] : ['imports'],
      disableESTransforms: true,
    });
    const text = code.replaceAll(/require\('(\.[^']+)'\)/g, (_, specifier: string) => {
      const target = path.posix.join(folder, specifier.replace(/\.[jt]s$/, ''));
      queue.push(target);
      return `load(${JSON.stringify(target)})`;
    });
    modules.set(name, text.replace(/^\/\/# sourceMappingURL=.*$/m, ''));
  }
  const bodies = [...modules].map(
    ([name, text]) => `${JSON.stringify(name)}(exports, load, require) {${text}\n}`,
  );
  return `(() => {
const modules = {${bodies.join(',\n')}};
const loaded = new Map();
const load = (name) => {
  const program = loaded.get(name);
  if (program) return program;
  const exports = {};
  loaded.set(name, exports);
  modules[name](exports, load, ${builtIns});
  return exports;
};
return load(${JSON.stringify(entry)});
})()`;
}
