import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Command, CommanderError } from 'commander';
import { expect, test } from 'vitest';
import type { CliDeps } from '../../../src/clients/cli/deps.ts';
import { createProgram } from '../../../src/clients/cli/program.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const list = (folder: string): string[] =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map(
    (name) => `${folder}/${name}`,
  );
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const code = list('src').filter((file) => /\.tsx?$/.test(file));
const pages = [
  ...['README.md', 'SKILL.md', 'llms.txt', 'CONTRIBUTING.md', 'deploy/README.md'],
  ...list('docs').filter((file) => file.endsWith('.md')),
];

/** The commands, without what they do and without the meaning of values. */
function commandsAlone(): Command {
  const terminal = { env: {}, out: () => {}, err: () => {} };
  const program = createProgram({ terminal } as unknown as CliDeps, '0');
  const strip = (command: Command): void => {
    for (const option of command.options) Reflect.set(option, 'parseArg', undefined);
    for (const argument of command.registeredArguments)
      Reflect.set(argument, 'parseArg', undefined);
    if (Reflect.get(command, '_actionHandler')) command.action(() => {});
    for (const each of command.commands) strip(each);
  };
  strip(program);
  return program;
}

const program = commandsAlone();

/** What the parser says of the words of a command; null: it would run. */
function faultOf(words: string): string | null {
  const args = [...words.matchAll(/(?:"[^"]*"|'[^']*'|<[^>]*>|[^\s"'<]+)+/g)].map(([word]) =>
    word.replace(/^["'](.*)["']$/, '$1'),
  );
  try {
    program.parse(args, { from: 'user' });
    return null;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? null : error.message;
    throw error;
  }
}

/** The words name a command, or a group of commands, and nothing else. */
function isName(words: string): boolean {
  let at: Command | undefined = program;
  for (const word of words.split(' ')) at = at?.commands.find((each) => each.name() === word);
  return at !== undefined;
}

const isGroup = (words: string) => isName(words) && faultOf(words) === '(outputHelp)';

/** Commands in texts of the code. A comment is for us. */
function namedInCode(text: string): readonly string[] {
  const shown = text.replace(/^\s*(\/\/|\/?\*).*$/gm, '');
  const inMarks = /(\\?)`(?:npx )?sluice ([^`\\]+)\\?`|<code>(?:npx )?sluice ([^<{]+)<\/code>/g;
  const unmarked = shown.replace(inMarks, '').matchAll(/(?<![`\w/.@-])sluice ([a-z]+) /g);
  return [
    ...[...shown.matchAll(inMarks)]
      // A template that begins so.
      .filter(([, mark, words = '']) => mark || !words.includes('${'))
      .map(([, , words, ofPage]) => words ?? ofPage ?? '')
      .map((words) => words.replace(/\$\{[^}]*\}/g, 'x')),
    ...[...unmarked]
      .map(([, word = '']) => word)
      .filter((word) => isName(word) && word !== 'completion')
      .map((word) => `(no marks of code) ${word}`),
  ];
}

/** Commands in a page: those of its sentences, and those of its blocks. */
function namedInPage(text: string): readonly string[] {
  const blocks = [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].map(([, block = '']) => block);
  const prose = text.replace(/^ *```[\s\S]*?^ *```/gm, '');
  return [
    ...[...prose.matchAll(/`(?:npx )?sluice ([^`]+)`/g)].map(([, words = '']) => words),
    ...blocks.flatMap((block) =>
      [
        ...block
          .replace(/\\\n/g, ' ')
          .replace(/ #.*$/gm, '')
          .matchAll(
            /^(?:[\s\w]*=?\$?\(?)(?:npx )?sluice ((?:"[^"]*"|'[^']*'|<[^>]*>|[^\n|;&><)"'])+)/gm,
          ),
      ].map(([, words = '']) => words.trim()),
    ),
  ];
}

const faultsIn = (
  files: readonly string[],
  named: (text: string) => readonly string[],
  isAllowed: (words: string) => boolean,
) =>
  files.flatMap((file) =>
    named(read(file))
      .filter((words) => !isAllowed(words))
      .map((words) => [file, words, faultOf(words)])
      .filter(([, , fault]) => fault !== null),
  );

test('each command that a message, a remedy or the page names is whole', () => {
  expect(faultsIn(code, namedInCode, isGroup)).toEqual([]);
});

test('each command that a document names exists, and is whole if it has an argument', () => {
  expect(faultsIn(pages, namedInPage, isName)).toEqual([]);
});

test('a command without a required option, and one that does not exist, are found', () => {
  const found = namedInCode(
    "const hint = 'Run `sluice keys create --operator`, or `sluice key list`.';",
  );
  expect(found.map(faultOf)).toEqual([
    expect.stringContaining("required option '--scopes"),
    expect.stringContaining('unknown command'),
  ]);
  expect(
    namedInPage('```sh\nexport KEY=$(npx sluice keys list --operator | jq -r .key)\n```'),
  ).toEqual(['keys list --operator']);
});
