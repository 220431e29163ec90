import type { Command, Option } from 'commander';
import { type CliDeps, misused } from './deps.ts';

const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

/** `sluice completion <shell>` */
export function registerCompletion(program: Command, deps: CliDeps): void {
  program
    .command('completion')
    .description('print a script for bash, zsh or fish that completes commands and options')
    .argument('<shell>', 'bash, zsh or fish')
    .action((shell: string) => {
      if (!shells.includes(shell as Shell)) {
        throw misused(`Use one of ${shells.join(', ')}.`);
      }
      deps.terminal.out(writers[shell as Shell](wordsOf(program)));
    });
}

/** A command, by its words (`exports list`; empty: sluice itself), and what may follow. */
interface Path {
  readonly path: string;
  readonly words: readonly { readonly word: string; readonly about: string }[];
}

function wordsOf(command: Command, path: readonly string[] = []): readonly Path[] {
  const visible = command.createHelp().visibleCommands(command);
  const inners = command.commands.filter((inner) => visible.includes(inner));
  const commands = inners.map((inner) => ({ word: inner.name(), about: inner.description() }));
  const options = [...command.options, helpOption].flatMap(({ long, description }) =>
    long ? [{ word: long, about: description }] : [],
  );
  const own = { path: path.join(' '), words: [...commands, ...options] };
  return [own, ...inners.flatMap((inner) => wordsOf(inner, [...path, inner.name()]))];
}

const helpOption: Pick<Option, 'long' | 'description'> = {
  long: '--help',
  description: 'show the options',
};

const writers: Readonly<Record<Shell, (paths: readonly Path[]) => string>> = {
  bash: (paths) => `# bash: source <(sluice completion bash)
_sluice() {
  local path='' word words
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path$word" in
${caseOfPaths(paths)}
    esac
  done
  case "\${path% }" in
${paths.map(({ path, words }) => `    '${path}') words='${words.map(({ word }) => word).join(' ')}' ;;`).join('\n')}
  esac
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _sluice sluice
`,
  zsh: (paths) => `#compdef sluice
# zsh: source <(sluice completion zsh)
_sluice() {
  local path_words='' word
  local -a words_here
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$path_words$word" in
${caseOfPaths(paths).replaceAll("path='", "path_words='")}
    esac
  done
  case "\${path_words% }" in
${paths.map(({ path, words }) => `    '${path}') words_here=(${words.map(({ word, about }) => quote(`${word}:${about.replaceAll(':', ' -')}`)).join(' ')}) ;;`).join('\n')}
  esac
  _describe 'sluice' words_here || _files
}
compdef _sluice sluice
`,
  fish: (paths) => `# fish: sluice completion fish | source
function __sluice_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    switch "$path$word"
${paths
  .filter(({ path }) => path !== '')
  .map(({ path }) => `      case ${quote(path)}\n        set path ${quote(`${path} `)}`)
  .join('\n')}
    end
  end
  string trim -- "$path"
end
${paths
  .flatMap(({ path, words }) =>
    words.map(({ word, about }) => {
      const here = `-n ${quote(`test (__sluice_path) = "${path}"`)}`;
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${word}`;
      return `complete -c sluice ${here} ${what} -d ${quote(about)}`;
    }),
  )
  .join('\n')}
`,
};

/** Follows the words of a line from command to command; what is no command does not count. */
function caseOfPaths(paths: readonly Path[]): string {
  return paths
    .filter(({ path }) => path !== '')
    .map(({ path }) => `      '${path}') path='${path} ' ;;`)
    .join('\n');
}

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
