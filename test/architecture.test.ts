import { readdirSync, readFileSync } from 'node:fs';
import path, { posix } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  checkerOfCustomers,
  connectorRooms,
  floors,
  forbiddenFolders,
  generatedTypes,
  looksUp,
  maxLines,
  places,
  type Room,
  rooms,
} from './support/architecture/rooms.ts';
import {
  countLines,
  type Import,
  parseSourceFile,
  type SourceFile,
} from './support/architecture/source-file.ts';

/** Where a rule is broken and how: `api/x.ts:3 imports …`. */
type Breach = string;

/** Arrows between rooms, and from rooms to packages, that the table does not have. */
function findForbiddenArrows(files: readonly SourceFile[]): Breach[] {
  return files.flatMap((file) => {
    const name = roomOf(file.path);
    const room = rooms[name];
    if (!room) return [`${file.path} is in a room that the table does not have`];
    return file.imports.flatMap((found) => {
      const reason = refuse(file.path, room, found);
      return reason ? [`${file.path}:${found.line} ${reason}`] : [];
    });
  });
}

function refuse(path: string, room: Room, found: Import): string | null {
  const { specifier } = found;
  if (specifier === null) {
    return room.from.includes('*') ? null : 'imports what only shows at run time';
  }
  if (!specifier.startsWith('.')) {
    if (covers(room.packages, specifier)) return null;
    if (found.typeOnly && covers(room.packageTypes ?? [], specifier)) return null;
    return `imports the package ${specifier}`;
  }
  const target = withoutFloor(resolve(path, specifier));
  if (found.typeOnly && generatedTypes.includes(target)) return null;
  if (roomOf(path) === 'console' && target === checkerOfCustomers) return null;
  if (target.startsWith('..')) return `imports ${specifier}, which is not in src`;
  const from = roomOf(target);
  if (from === roomOf(path)) return null;
  const names = room.names?.[from];
  const wrong = found.typeOnly
    ? undefined
    : found.names.find((name) => names?.test(name) === false);
  if (wrong) return `imports ${wrong} of ${target}`;
  if (covers(room.from, target)) return null;
  if (found.typeOnly && covers(room.types ?? [], target)) return null;
  return `imports ${target}`;
}

/** Packages that our code imports but a production install lacks: no dependency, or one of development. */
function findUndeclared(files: readonly SourceFile[], declared: readonly string[]): Breach[] {
  return files.flatMap((file) =>
    file.imports
      .filter(({ specifier, typeOnly }) => specifier && !typeOnly && !/^(\.|node:)/.test(specifier))
      .filter(({ specifier }) => !covers(declared, specifier ?? ''))
      .map(({ specifier, line }) => `${file.path}:${line} imports ${specifier}`),
  );
}

/** Connectors that know a sibling, and groundwork that knows a connector. */
function findSiblingImports(files: readonly SourceFile[]): Breach[] {
  return files.flatMap((file) => {
    const connectors = connectorRooms[roomOf(file.path)];
    if (!connectors) return [];
    const own = innerFolder(file.path);
    if (own === null && connectors.registries.includes(posix.basename(file.path))) return [];
    return arrowsInside(file).flatMap(({ target, line }) => {
      const theirs = innerFolder(target);
      const isRegistry = theirs === null && connectors.registries.includes(posix.basename(target));
      const isGroundwork = theirs !== null && connectors.groundwork.includes(theirs);
      if (!isRegistry && (theirs === null || theirs === own || isGroundwork)) return [];
      return [`${file.path}:${line} imports ${target}`];
    });
  });
}

function arrowsInside(file: SourceFile): { target: string; line: number }[] {
  return file.imports
    .filter(({ specifier }) => specifier?.startsWith('.'))
    .map(({ specifier, line }) => ({
      target: withoutFloor(resolve(file.path, specifier ?? '')),
      line,
    }))
    .filter(({ target }) => roomOf(target) === roomOf(file.path));
}

/** `encoders/csv/encode.ts` → `csv`; a file at the room's top → null. */
function innerFolder(path: string): string | null {
  const parts = withoutFloor(path).split('/');
  return parts.length > 2 ? (parts[1] ?? null) : null;
}

/** Names that are used outside of the only places where they are allowed. */
function findMisplaced(files: readonly SourceFile[], what: keyof typeof places): Breach[] {
  const allowed: readonly string[] = places[what];
  return files
    .filter(({ path }) => !covers(allowed, withoutFloor(path)))
    .flatMap((file) =>
      what === 'bullmq' || what === 'pg'
        ? file.imports
            .filter((found) => !found.typeOnly && covers([what], found.specifier ?? ''))
            .map(({ line }) => `${file.path}:${line} imports ${what}`)
        : file.marks
            .filter((mark) => mark.kind === what)
            .map(({ line }) => `${file.path}:${line} ${what}`),
    );
}

function findForbiddenFolders(paths: readonly string[]): Breach[] {
  return paths.filter((path) => path.split('/').some((part) => forbiddenFolders.includes(part)));
}

function findLongFiles(files: readonly Pick<SourceFile, 'path' | 'lines'>[]): Breach[] {
  return files
    .filter(({ lines }) => lines > maxLines)
    .map(({ path, lines }) => `${path} has ${lines} lines`);
}

/** Files that import each other in a circle, each circle once; types count, they bind readers too. */
function findCycles(files: readonly SourceFile[]): Breach[] {
  const arrows = new Map(
    files.map((file) => [
      file.path,
      file.imports
        .filter(({ specifier }) => specifier?.startsWith('.'))
        .map(({ specifier }) => resolve(file.path, specifier ?? '')),
    ]),
  );
  const done = new Set<string>();
  const trail: string[] = [];
  const cycles: Breach[] = [];
  const visit = (path: string) => {
    const at = trail.indexOf(path);
    if (at >= 0) cycles.push([...trail.slice(at), path].join(' → '));
    if (at >= 0 || done.has(path)) return;
    trail.push(path);
    for (const target of arrows.get(path) ?? []) visit(target);
    trail.pop();
    done.add(path);
  };
  for (const path of arrows.keys()) visit(path);
  return cycles;
}

/** Rooms on another floor than the table says, and floors that import a higher one. */
function findWrongFloors(files: readonly SourceFile[]): Breach[] {
  return files.flatMap((file) => {
    const [floor = '', room = ''] = file.path.split('/');
    if (!(floors[floor]?.rooms.includes(room) ?? false) && floor !== 'main')
      return [`${file.path} is on a floor that the table does not name for it`];
    return file.imports.flatMap(({ specifier, line }) => {
      const [target = ''] = specifier?.startsWith('.')
        ? resolve(file.path, specifier).split('/')
        : [floor];
      if (target === floor || target === '..' || file.path === looksUp) return [];
      return floors[floor]?.uses.includes(target)
        ? []
        : [`${file.path}:${line} imports the floor ${target}`];
    });
  });
}

/** `state/store/runs/runs.ts` → `store/runs/runs.ts`. */
function withoutFloor(path: string): string {
  const [first = '', second = ''] = path.split('/');
  return floors[first]?.rooms.includes(second) ? path.slice(first.length + 1) : path;
}

function roomOf(path: string): string {
  return withoutFloor(path).split('/')[0] ?? '';
}

function resolve(from: string, specifier: string): string {
  return posix.join(posix.dirname(from), specifier);
}

/** Whether one of the patterns is this path or specifier, a folder of it, or ends in `*` and begins it. */
function covers(patterns: readonly string[], subject: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*')
      ? subject.startsWith(pattern.slice(0, -1))
      : subject === pattern || subject.startsWith(`${pattern}/`),
  );
}

const root = path.resolve(import.meta.dirname, '..');

function readTree(folder: string): { path: string; text: string }[] {
  const base = path.join(root, folder);
  return readdirSync(base, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(tsx?|mjs)$/.test(name) && !name.split(path.sep).includes('node_modules'))
    .map((name) => ({
      path: name.split(path.sep).join('/'),
      text: readFileSync(path.join(base, name), 'utf8'),
    }));
}

const files = readTree('src').map(({ path: name, text }) => parseSourceFile(name, text));

/** The page is bundled; what it is built from is no dependency of the service. */
const isServer = (file: { path: string }) => !file.path.startsWith('clients/console/');

describe('the rooms under src', () => {
  test('import only what the table of the architecture allows', () => {
    expect(files.length).toBeGreaterThan(100);
    expect(findForbiddenArrows(files)).toEqual([]);
  });

  test('are on their floors, and each floor uses lower ones only', () => {
    expect(findWrongFloors(files)).toEqual([]);
    const wrong = parseSourceFile('state/store/x.ts', "import '../../service/api/x.ts';");
    expect(findWrongFloors([wrong])).toHaveLength(1);
    expect(findWrongFloors([parseSourceFile('rows/store/x.ts', '')])).toHaveLength(1);
  });

  test('are those of the map', () => {
    const map = readFileSync(path.join(root, 'src/README.md'), 'utf8');
    const rows = map.split('\n').filter((line) => /^\| `/.test(line));
    const named = rows.flatMap((line) => line.split('|')[1]?.match(/[a-z-]+/g) ?? []);
    // Rooms that the table already has a place for may still be empty.
    const built = new Set(
      files.map(({ path: name }) => name.split('/')[name.startsWith('main/') ? 0 : 1] ?? ''),
    );
    expect(named).toEqual(expect.arrayContaining([...built]));
    expect(Object.keys(rooms)).toEqual(expect.arrayContaining(named));
  });

  test('run with the packages that a production install has', () => {
    const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    const dependencies = Object.keys(manifest.dependencies);
    // The S3 server of the quickstart is a development package; it says what to install if that is missing.
    dependencies.push('fauxqs');
    expect(findUndeclared(files.filter(isServer), dependencies)).toEqual([]);
  });

  test('keep connectors apart from their siblings', () => {
    expect(findSiblingImports(files)).toEqual([]);
  });

  test('have no files that import each other in a circle', () => {
    expect(findCycles(files)).toEqual([]);
  });

  test.each(Object.keys(places) as (keyof typeof places)[])('keep %s in its place', (what) => {
    expect(findMisplaced(files, what)).toEqual([]);
  });

  test('have no folder whose name says nothing, and no file that is too long', () => {
    const all = ['src', 'test', 'bench', 'scripts'].flatMap((folder) =>
      readTree(folder).map(({ path: name, text }) => ({
        path: `${folder}/${name}`,
        lines: countLines(text),
      })),
    );
    expect(findForbiddenFolders(all.map((file) => file.path))).toEqual([]);
    expect(findLongFiles(all)).toEqual([]);
  });
});

describe('the rules see', () => {
  const parse = (name: string, text: string) => [parseSourceFile(name, text)];

  test.each([
    ['a static import', "import { x } from '../api/x.ts';"],
    ['an import of a type', "import type { X } from '../api/x.ts';"],
    ['an import over several lines', "import {\n  x,\n  y,\n} from '../api/x.ts';"],
    ['a re-export', "export * from '../api/x.ts';"],
    ['a dynamic import', "const x = await import('../api/x.ts');"],
    ['an import inside a type', "let x: import('../api/x.ts').X;"],
    ['an import for its side effects', "import '../api/x.ts';"],
    ['an import that is computed', 'const x = await import(process.argv[1]);'],
    ['a package of another room', "import pg from 'pg';"],
    ['Node in a room without I/O', "import { readFile } from 'node:fs/promises';"],
  ])('%s', (_, text) => {
    expect(findForbiddenArrows(parse('scheduling/plan.ts', text))).toHaveLength(1);
  });

  test('a room that is missing from the table', () => {
    expect(rooms.attic).toBeUndefined();
    expect(findForbiddenArrows(parse('attic/x.ts', 'export const x = 1;'))).toHaveLength(1);
  });

  test('a value import for a type-only arrow, and a write for a read-only arrow', () => {
    const arrows = (name: string, text: string) => findForbiddenArrows(parse(name, text)).length;
    const destination = "from '../destinations/destination.ts';";
    expect(arrows('worker/a.ts', `import { type Destination } ${destination}`)).toBe(0);
    expect(arrows('worker/a.ts', `import { type A, b } ${destination}`)).toBe(1);
    expect(arrows('api/a.ts', "import { findRun } from '../store/runs/runs.ts';")).toBe(0);
    expect(arrows('api/a.ts', "import { findRun, type Run } from '../store/runs/runs.ts';")).toBe(
      0,
    );
    expect(arrows('api/a.ts', "import { insertRun } from '../store/runs/runs.ts';")).toBe(1);
    expect(arrows('api/a.ts', "import * as runs from '../store/runs/runs.ts';")).toBe(1);
  });

  test('a connector that reaches for its sibling or its registry, but not for the groundwork', () => {
    const siblings = (text: string) =>
      findSiblingImports(parse('encoders/csv/encode.ts', text)).length;
    expect(siblings("import { x } from '../jsonlines/encode.ts';")).toBe(1);
    expect(siblings("import { x } from '../index.ts';")).toBe(1);
    expect(siblings("import { x } from '../text/byte-writer.ts';")).toBe(0);
    expect(siblings("import { x } from '../encoder.ts';")).toBe(0);
    const groundwork = parse('encoders/text/x.ts', "import { x } from '../csv/encode.ts';");
    expect(findSiblingImports(groundwork)).toHaveLength(1);
  });

  test.each([
    ['environment', 'const x = process.env.HOME;'],
    ['environment', 'const { env } = process;'],
    ['environment', "import { env } from 'node:process';"],
    ['environment', "const x = globalThis.process['env'];"],
    ['clock', 'const x = Date.now();'],
    ['clock', 'const x = new Date();'],
    ['clock', 'const x = DateTime.now();'],
    ['clock', 'const x = DateTime.utc();'],
    ['date', 'const x = new Date(5);'],
    ['bullmq', "import { Queue } from 'bullmq';"],
    ['pg', "import pg from 'pg';"],
    ['any', 'export const x = (y: any[]) => y;'],
    ['default-export', 'export default 5;'],
    ['default-export', 'const x = 5; export { x as default };'],
  ] as const)('%s out of its place: %s', (what, text) => {
    expect(findMisplaced(parse('use-cases/x.ts', text), what)).toHaveLength(1);
    expect(findMisplaced(parse('use-cases/x.ts', `// ${text}`), what)).toEqual([]);
  });

  test('a circle of three files, once', () => {
    const circle = [
      ...parse('domain/a.ts', "import './b.ts';"),
      ...parse('domain/b.ts', "import type { C } from './c.ts';"),
      ...parse('domain/c.ts', "export * from './a.ts';"),
    ];
    expect(findCycles(circle)).toEqual(['domain/a.ts → domain/b.ts → domain/c.ts → domain/a.ts']);
  });

  test('a package that only development installs, but not its types', () => {
    const undeclared = (text: string) => findUndeclared(parse('api/x.ts', text), ['pg', '@a/b']);
    expect(undeclared("import { test } from 'vitest';")).toHaveLength(1);
    expect(undeclared("const { x } = await import('vitest/node');")).toHaveLength(1);
    expect(undeclared("import type { Test } from 'vitest';")).toEqual([]);
    expect(undeclared("import '@a/b/c'; import pg from 'pg'; import 'node:fs';")).toEqual([]);
  });

  test('a folder called helpers and a file of 401 lines', () => {
    expect(findForbiddenFolders(['api/helpers/x.ts', 'api/x-helpers.ts'])).toHaveLength(1);
    expect(findLongFiles([{ path: 'a.ts', lines: 401 }])).toHaveLength(1);
    expect(findLongFiles([{ path: 'a.ts', lines: 400 }])).toEqual([]);
  });
});
