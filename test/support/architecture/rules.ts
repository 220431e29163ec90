import { posix } from 'node:path';
import {
  connectorRooms,
  floors,
  forbiddenFolders,
  checkerOfCustomers,
  generatedTypes,
  looksUp,
  maxLines,
  places,
  type Room,
  rooms,
} from './rooms.ts';
import type { Import, SourceFile } from './source-file.ts';

/** Where a rule is broken and how: `api/x.ts:3 imports …`. */
export type Breach = string;

/** Arrows between rooms, and from rooms to packages, that the table does not have. */
export function findForbiddenArrows(files: readonly SourceFile[]): Breach[] {
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
export function findUndeclared(
  files: readonly SourceFile[],
  declared: readonly string[],
): Breach[] {
  return files.flatMap((file) =>
    file.imports
      .filter(({ specifier, typeOnly }) => specifier && !typeOnly && !/^(\.|node:)/.test(specifier))
      .filter(({ specifier }) => !covers(declared, specifier ?? ''))
      .map(({ specifier, line }) => `${file.path}:${line} imports ${specifier}`),
  );
}

/** Connectors that know a sibling, and groundwork that knows a connector. */
export function findSiblingImports(files: readonly SourceFile[]): Breach[] {
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
export function findMisplaced(files: readonly SourceFile[], what: keyof typeof places): Breach[] {
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

export function findForbiddenFolders(paths: readonly string[]): Breach[] {
  return paths.filter((path) => path.split('/').some((part) => forbiddenFolders.includes(part)));
}

export function findLongFiles(files: readonly Pick<SourceFile, 'path' | 'lines'>[]): Breach[] {
  return files
    .filter(({ lines }) => lines > maxLines)
    .map(({ path, lines }) => `${path} has ${lines} lines`);
}

/** Files that import each other in a circle, each circle once; types count, they bind readers too. */
export function findCycles(files: readonly SourceFile[]): Breach[] {
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
export function findWrongFloors(files: readonly SourceFile[]): Breach[] {
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
