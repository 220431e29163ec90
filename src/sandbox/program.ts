import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { transform } from 'sucrase';

/**
 * The programs of the sandbox's process, as texts: one for the process, one for the plugin's realm in
 * it. As a text a program needs no access to files, and it runs the same from a build and from
 * TypeScript. They are made once.
 */
export interface Programs {
  /** Starts to serve at once. Needs `require`. */
  readonly child: string;
  /** A script whose value is the realm's exports. */
  readonly realm: string;
}

let made: Programs | null = null;

export function makePrograms(): Programs {
  made ??= {
    child: `${join('child/main')}.serve();`,
    realm: join('realm/main', 'undefined'),
  };
  return made;
}

/** An expression: the exports of the file, with all files of ours that it imports. */
function join(entry: string, builtIns = 'require'): string {
  const modules = new Map<string, string>();
  const extension = path.extname(fileURLToPath(import.meta.url));
  const add = (name: string) => {
    if (modules.has(name)) return;
    const file = fileURLToPath(new URL(`./${name}${extension}`, import.meta.url));
    const { code } = transform(readFileSync(file, 'utf8'), {
      transforms: extension === '.ts' ? ['typescript', 'imports'] : ['imports'],
      disableESTransforms: true,
    });
    modules.set(name, '');
    const text = code.replaceAll(/require\('(\.[^']+)'\)/g, (_, specifier: string) => {
      const target = path.posix.join(path.posix.dirname(name), specifier.replace(/\.[jt]s$/, ''));
      add(target);
      return `load(${JSON.stringify(target)})`;
    });
    modules.set(name, text.replace(/^\/\/# sourceMappingURL=.*$/m, ''));
  };
  add(entry);
  const bodies = [...modules].map(
    ([name, text]) => `${JSON.stringify(name)}(exports, load, require) {${text}\n}`,
  );
  return `(() => {
const modules = {${bodies.join(',\n')}};
const loaded = new Map();
const load = (name) => {
  const known = loaded.get(name);
  if (known) return known;
  const exports = {};
  loaded.set(name, exports);
  modules[name](exports, load, ${builtIns});
  return exports;
};
return load(${JSON.stringify(entry)});
})()`;
}
