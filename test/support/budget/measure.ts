import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { settings } from '../../../src/foundation/config/settings.ts';
import { posthogTag } from '../../../src/service/api/posthog/names.ts';
import { countLines, type SourceFile } from '../architecture/source-file.ts';
import { type DocumentText, type Operation, readDocumentOfSource } from './openapi-of-source.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const read = (name: string) => readFileSync(path.join(root, name), 'utf8');

/** Every figure of the budget by its name, as the sources are now. */
export async function measure(): Promise<Readonly<Record<string, number>>> {
  const source = linesOf('src', /\.tsx?$/);
  const document = await readDocumentOfSource();
  return {
    'src lines': sum(source.map((file) => file.lines)),
    ...linesOfRooms(source),
    'test lines': sum(linesOf('test', /\.ts$/).map((file) => file.lines)),
    'docs lines': sum(linesOf('docs', /\.md$/).map((file) => file.lines)),
    'tables of the database': count(
      read('migrations/0001_release.sql'),
      /^create (unlogged )?table /gm,
    ),
    'settings of the environment': Object.keys(settings).length,
    'operations of the API': operationsOf(document),
    'fields of an export': fieldsOfExport(document),
    'words of the glossary': count(section('Words'), /^\| \*\*/gm),
    'files from tick to file': wayOfTick().length,
    'names that say nothing': sum(source.map(({ text }) => count(text, emptyName))),
    'comments without a subject': sum(source.map(({ text }) => count(text, noSubject))),
  };
}

/** A name says the thing: `receipt`, not `found`. */
const emptyName = /\b(?:const|let) (?:found|known|left|kept|wanted|asked|made)\b/g;
const noSubject = /^\s*(?:\/\*\*|\*|\/\/) (?:What|Whether|How)\b/gm;

/** One line of the list in src/README.md: a file, and whether a job of the queue calls it. */
export interface Stop {
  readonly path: string;
  readonly byJob: boolean;
}

/** The list "From tick to file" of src/README.md, in order. */
export function wayOfTick(): Stop[] {
  const lines = section('From tick to file').matchAll(/^\d+\. `([^`]+)`(.*)$/gm);
  return [...lines].map(([, name = '', text = '']) => ({
    path: name,
    byJob: text.includes('(job)'),
  }));
}

/** What is wrong with the list: files that do not exist, that it names twice, or that no earlier file leads to. */
export function findDetours(way: readonly Stop[], files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  return way.flatMap((stop, index) => {
    const earlier = way.slice(0, index);
    const file = byPath.get(stop.path);
    if (!file) return [`${stop.path} does not exist`];
    if (earlier.some((other) => other.path === stop.path)) return [`${stop.path} is in it twice`];
    const isLinked = earlier.some((other) => {
      const neighbour = byPath.get(other.path);
      return neighbour && (imports(neighbour, file) || imports(file, neighbour));
    });
    if (index === 0 || stop.byJob || isLinked) return [];
    return [`${stop.path} neither imports a file above it nor is imported by one`];
  });
}

function imports(from: SourceFile, to: SourceFile): boolean {
  return from.imports.some(
    ({ specifier }) =>
      specifier?.startsWith('.') &&
      path.posix.join(path.posix.dirname(from.path), specifier) === to.path,
  );
}

function linesOf(folder: string, ending: RegExp) {
  return readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ending.test(name) && !name.split(path.sep).includes('node_modules'))
    .map((name) => {
      const text = read(path.join(folder, name));
      return { path: name.split(path.sep).join('/'), text, lines: countLines(text) };
    });
}

/** A room is a folder of a floor. `main` is one room. */
function linesOfRooms(files: readonly { path: string; lines: number }[]): Record<string, number> {
  const rooms: Record<string, number> = {};
  for (const file of files) {
    const [floor = '', room] = file.path.split('/');
    const name = floor === 'main' ? floor : `${floor}/${room}`;
    rooms[`src/${name} lines`] = (rooms[`src/${name} lines`] ?? 0) + file.lines;
  }
  return Object.fromEntries(Object.entries(rooms).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function section(title: string): string {
  const text = read('src/README.md').split(`\n## ${title}\n`)[1];
  if (text === undefined) throw new Error(`src/README.md has no section "${title}"`);
  return text.split('\n## ')[0] ?? '';
}

/** The names of other programs for an operation are not counted: a table makes them. */
function operationsOf({ paths }: DocumentText): number {
  const verbs = ['get', 'post', 'put', 'patch', 'delete'];
  const isOwn = (operation: Operation | undefined) =>
    operation !== undefined && !operation.tags?.includes(posthogTag);
  return sum(Object.values(paths).map((path) => verbs.filter((verb) => isOwn(path[verb])).length));
}

/** Fields that a request may set, and those that only an answer has. */
function fieldsOfExport({ paths, components }: DocumentText): number {
  const create = paths['/api/projects/{project_id}/batch_exports']?.post;
  if (create === undefined) throw new Error('the API creates no exports');
  const resolve = (schema: Schema | undefined): Schema => {
    const name = schema?.$ref?.split('/').at(-1);
    return (name === undefined ? schema : components.schemas[name]) ?? {};
  };
  const bodies = [create.requestBody, create.responses['201']].map((part) =>
    resolve(part?.content['application/json']?.schema),
  );
  const names = bodies.flatMap((body) => Object.keys(body.properties ?? {}));
  if (names.length === 0) throw new Error('an export has no fields');
  return new Set(names).size;
}

type Schema = NonNullable<DocumentText['components']['schemas'][string]>;

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function count(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].length;
}
