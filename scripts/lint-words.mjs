/**
 * Finds the words that docs/style.md forbids, in every file of ours that a person reads.
 *
 *   node scripts/lint-words.mjs            prints `file:line: word → what to write`; exits 1 if there is any
 *   node scripts/lint-words.mjs --count    prints how many each folder has
 *
 * With paths behind it, it looks at these only. It reads comments, strings, JSX text and Markdown. It skips
 * SQL, code in Markdown and generated parts. Identifiers are split into words and checked against a short list.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';

const skippedFiles = [
  'package-lock.json',
  'docs/style.md',
  'scripts/lint-words.mjs',
  // Written by `npm run docs` and `npm run api-types` from sources that are checked.
  'docs/configuration.md',
  'docs/errors.md',
  '.env.example',
  'src/console/openapi.json',
  'src/console/api-types.ts',
];

// Stands for a piece of inline code, so that "where `x` is true" is still seen.
const CODE = '\u00a4';
// Stands for anything that is not prose; no pattern crosses it.
const GAP = '\u0000';

const subject = [
  `it|its|the|there|this|that|these|those|no|a|an|one|they|none|nothing|neither|both|any|all|each|every|some|only`,
  `such|two|several|he|she|we|you|our|your|needed|possible|necessary|given|known|set|absent|present|${CODE}+`,
].join('|');
// After these words "where" names a place or asks for one. Anything else before it makes it a condition.
const placeWords = [
  'place|places|point|points|position|positions|line|lines|folder|folders|address|spot|step|steps|moment|state',
  'says|say|said|know|knows|known|show|shows|shown|see|sees|find|finds|found|learn|learns|ask|asks|asked|remember',
  'remembers|name|names|notes|records|record|writes|print|prints|choose|chooses|decide|decides|matter|matters',
  'of|from|to|is|was|are|just|right|exactly|and|or|but|on|about|case|cases|not|who|what|when|how|clause|still',
  'begin|begins|beginning|begun|start|starts|starting|returns|return|somewhere|anywhere|remembers|look|looks|other',
  'end|half|side|pause|resume|resumes|list|lists|unknown',
].join('|');

/** Each rule: what is found, and what to write instead. `prose: 'comment'` leaves strings out. */
const rules = [
  [/\btold\b/gi, 'said, reported, notified'],
  [/\btells\b(?!.{1,40}\bapart\b)/gi, 'says, reports'],
  [/\btell(?:ing)? of\b/gi, 'report'],
  [/\bmend(?:s|ed|ing)?\b/gi, 'fix'],
  [
    /\bpassing (?:fault|error|failure|trouble|problem|condition|reason|cause|one|ones)s?\b/gi,
    'transient',
  ],
  [/\bwhoever\b/gi, 'name the actor'],
  [/(?<!\u0000)\b[Nn]obody\b(?!@|\u0000)/g, 'name the actor; state it positively'],
  [/\brung\b/gi, 'enqueued, notified'],
  [/\brings? (?:for|again|it|them|the|every|twice|at)\b/gi, 'enqueue, notify'],
  [/\bin force\b/gi, 'current'],
  [/(?<!\bno )\blies\b/gi, 'is'],
  [
    /\b(?:lie|lay|lying) (?:in|at|on|about|around|beside|there|before|behind|after|between|within|outside|below|above)\b/gi,
    'be',
  ],
  [/\bstands?\b(?!-| in for\b| for\b| up\b|alone\b)/gi, 'is'],
  [/\bstood\b/gi, 'was'],
  [
    /\b(?:is|are|was|were|be|been|being|stays?|stayed|goes|went|gone|going) away\b/gi,
    'is unreachable; was removed',
  ],
  [/\b(?:has|have|had) gone\b/gi, 'is unreachable; was removed; ended'],
  [/\b(?:is|are|was|were) none (?:that|of)\b/gi, 'state it positively'],
  [/\b(?:come|comes|came|coming|gets?|got) further\b/gi, 'make progress'],
  [
    /\bput(?:s|ting)? (?:it |them |this |that |things )?right\b(?! (?:before|after|behind|in|at)\b)/gi,
    'fix',
  ],
  [
    new RegExp(
      `(?<!\\b(?:${placeWords})\\s+|^[^\\w]*)\\bwhere (?:${subject})(?![\\w-])(?!\\s*(?:=|<|>|\\())`,
      'g',
    ),
    'if',
    'prose',
  ],
  // Any other subject; in strings it may be SQL.
  [
    new RegExp(
      `(?<!\\b(?:${placeWords})\\s+|^[^\\w]*)\\bwhere (?!(?:${subject})\\b)(?:[a-z][a-z’']+|Postgres(?:QL)?|Redis|S3|Sluice)\\b(?![\\w-])(?!\\s*(?:=|<|>|\\(|is\\b|in\\b|~|\\.))`,
      'g',
    ),
    'if',
    'words',
  ],
  // At the start of a sentence it names a place, unless a main clause follows.
  [new RegExp(`\\bWhere (?:${subject})(?![\\w-])(?=[^.;:\\u0000]{4,120},)`, 'g'), 'If', 'prose'],
  [
    /\bone an? (?:line|page|file|interval|row|run|export|process|worker|tenant|project|key|day|hour|minute|second|time|test|table|aggregate|block|part|tick|folder|column|field)\b/gi,
    'one per …',
  ],
  [
    /\b(?:free|worker's|its|all|no|few|enough|more|run|worker) places\b|\bplaces? of (?:a|the|its|one|each) workers?\b|\bplaces (?:free|taken|left)\b/gi,
    'slots',
  ],
  [
    /\b(?:at most|at least|for) so (?:many|long|much|few|often)\b|\bso (?:many|long|much|few|often) at (?:most|least)\b/gi,
    'say how many',
  ],
  [
    /(?<!\b(?:instance|because|regardless|irrespective|each|none|all|some|any|one|many|most|every|either|neither|two)\s)\bof which\b/gi,
    'start a new sentence',
  ],
  [/\b(?:thereof|whereof|hereof|therein|whereupon|thereupon|lest)\b/gi, 'start a new sentence'],
  [
    /(?<=^|[.:>"'`\u0000] ?)(?:Least|Most) (?:seconds|minutes|hours|days|rows|bytes|connections|requests|runs|level|number|MiB|times|attempts)\b/gm,
    'minimum, maximum',
  ],
  [/\bnothing to do:/gi, 'No action needed:'],
  [/\b(?:hold|holds|held) (?!.{0,30}[.,;:])(?:\w+ ){1,4}against\b/gi, 'check … against'],
];

const identifierWords = {
  told: 'said',
  mend: 'fix',
  mends: 'fixes',
  mended: 'fixed',
  nobody: 'no…',
  whoever: 'name the actor',
  rung: 'enqueued',
};

/** Puts `with` in place of every character but line ends. */
const blank = (text, filler = GAP) => text.replace(/[^\s]/g, filler);

/** A template may hold code; what is between the braces is a gap. */
function withoutHoles(text) {
  return text.replace(/\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g, (hole) => blank(hole, CODE));
}

const looseSqlMarks =
  /[a-z]_[a-z]|\$\d|::|[a-z]\.[a-z]|[=<>]|\bset\b|\bfrom\b|\bnot\b(?: \w+)?$|^.where /i;
const sqlMarks =
  /\b(?:select\b[^.]*\bfrom|insert into|update \w+(?: \w+)? set|delete from|returning|create (?:unique )?(?:table|index)|alter table|order by|group by|is (?:not )?null|exists ?\(|left join|inner join)|[=<>] ?(?:\$\d|\$\{|any|')/i;

/** Comments, strings, regular expressions and the code between them, in order. */
const pieces =
  /(?<line>\/\/[^\n]*)|(?<block>\/\*[\s\S]*?\*\/)|(?<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\$]|\\[\s\S]|\$(?!\{)|\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\})*`)|(?<regex>(?<=[=(,:!&|?;{}\n>][ \t]*)\/(?![*/ ])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[dgimsuvy]*)/g;

function ofScript(text, isTsx) {
  let prose = '';
  let code = '';
  const strings = [];
  let at = 0;
  const between = (piece) => {
    code += piece;
    const jsx = isTsx
      ? piece.replace(/(?<=>)[^<>{}=;]*(?=[<{])|(?<=\})[^<>{}=;()]*(?=[<{])/g, (t) =>
          t.replace(/\S/g, (c) => String.fromCharCode(c.charCodeAt(0) + 0xe000)),
        )
      : piece;
    prose += jsx
      .replace(/[^\s\ue000-\uf8ff]/g, GAP)
      .replace(/[\ue000-\uf8ff]/g, (c) => String.fromCharCode(c.charCodeAt(0) - 0xe000));
  };
  for (const match of text.matchAll(pieces)) {
    between(text.slice(at, match.index));
    at = match.index + match[0].length;
    const { line, block, string } = match.groups;
    if (line !== undefined || block !== undefined) {
      code += blank(match[0], ' ');
      prose += ofComment(match[0]);
    } else {
      const whole = match[0];
      strings.push([
        prose.length,
        prose.length + whole.length,
        string !== undefined && sqlMarks.test(whole),
      ]);
      code += string === undefined ? blank(whole, ' ') : blank(whole, ' ');
      prose += GAP + withoutHoles(whole.slice(1, -1)) + GAP;
    }
  }
  between(text.slice(at));
  return { prose, code, strings };
}

const inlineCode = (text) => text.replace(/`[^`\n]*`/g, (code) => CODE.repeat(code.length));

function ofComment(text) {
  return inlineCode(
    text
      .replace(/^(\s*)(\/\/+|\/\*+|\*(?!\/))/gm, (lead) => lead.replace(/\S/g, ' '))
      .replace(/\*\/$/, '  '),
  );
}

function ofMarkdown(text) {
  const prose = text
    .replace(/<!-- \w+: npm run docs[\s\S]*?<!-- \/\w+ -->/g, (part) => blank(part))
    .replace(/^ *```[\s\S]*?^ *```/gm, (part) => blank(part));
  return { prose: inlineCode(prose), code: '', strings: [] };
}

/** What begins with `mark` up to the end of the line: comments of SQL, YAML, shell. */
function ofMarked(text, mark) {
  const prose = text
    .split('\n')
    .map((line) => {
      const found = line.search(mark);
      return found < 0
        ? blank(line)
        : blank(line.slice(0, found)) +
            inlineCode(line.slice(found).replace(/^(?:--|#)+/, (m) => ' '.repeat(m.length)));
    })
    .join('\n');
  return { prose, code: '', strings: [] };
}

function read(file) {
  const text = readFileSync(file, 'utf8');
  const kind = extname(file);
  if (['.ts', '.tsx', '.mjs', '.cjs', '.js'].includes(kind)) return ofScript(text, kind === '.tsx');
  if (kind === '.md') return ofMarkdown(text);
  if (kind === '.sql') {
    const marked = ofMarked(text, /(?:^|\s)--/);
    return { ...marked, text };
  }
  if (['.yml', '.yaml', '.json', '.html'].includes(kind))
    return { prose: text, code: '', strings: [] };
  if (kind === '.css') return ofScript(text, false);
  return ofMarked(text, /(?:^|\s)#/);
}

const isRead = (file) =>
  !skippedFiles.includes(file) &&
  (/\.(?:tsx?|mjs|cjs|md|sql|ya?ml|json|css|html|service|conf)$/.test(file) ||
    /^(?:\.ci\/run|Dockerfile|Procfile)$/.test(file));

function* offendersIn(file, messages) {
  const { prose, code, strings } = read(file);
  const lineAt = (index) => prose.slice(0, index).split('\n').length;
  for (const [pattern, instead, only] of rules) {
    // A comment's words may be on two lines.
    const spaced = new RegExp(pattern.source.replaceAll(' ', '\\s+'), pattern.flags);
    for (const match of prose.matchAll(spaced)) {
      const string = strings.find(([from, to]) => match.index >= from && match.index < to);
      if (string !== undefined) {
        if (
          only === 'words' &&
          (string[2] || looseSqlMarks.test(read(file).prose.slice(string[0], string[1])))
        )
          continue;
        if (only === 'prose' && (string[2] || match[0].includes(CODE))) continue;
        // A test that asserts a message of ours changes together with the message.
        const [from, to] = string;
        const around = prose.slice(
          Math.max(from + 1, match.index - 12),
          Math.min(to - 1, match.index + match[0].length + 12),
        );
        const known =
          around
            .replace(/[\u0000\u00a4]+/g, '\n')
            .split('\n')
            .find((part) => part.includes(match[0])) ?? match[0];
        if (file.startsWith('test/') && /\w\W+\w/.test(known) && messages().includes(known))
          continue;
      }
      yield {
        line: lineAt(match.index),
        word: match[0].replace(/\s+/g, ' ').replaceAll(CODE, '…'),
        instead,
      };
    }
  }
  for (const match of code.matchAll(/[A-Za-z_$][\w$]*/g)) {
    for (const word of match[0].split(/_|(?<=[a-z0-9])(?=[A-Z])/)) {
      const instead =
        Object.hasOwn(identifierWords, word.toLowerCase()) && identifierWords[word.toLowerCase()];
      if (instead)
        yield { line: code.slice(0, match.index).split('\n').length, word: match[0], instead };
    }
  }
}

const wanted = process.argv.slice(2).filter((argument) => argument !== '--count');
const counting = process.argv.includes('--count');
const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', ...wanted],
  { encoding: 'utf8' },
)
  .split('\n')
  .filter((file) => file !== '' && isRead(file) && existsSync(file));

let source;
const messages = () => {
  source ??= execFileSync('git', ['ls-files', 'src'], { encoding: 'utf8' })
    .split('\n')
    .filter((file) => /\.tsx?$/.test(file) && existsSync(file))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  return source;
};

const rooms = new Map();
let total = 0;
for (const file of files) {
  const offenders = [...offendersIn(file, messages)].sort((one, other) => one.line - other.line);
  total += offenders.length;
  const parts = file.split('/');
  const room =
    parts.length === 1
      ? '(root)'
      : parts.slice(0, ['src', 'test'].includes(parts[0]) && parts.length > 2 ? 2 : 1).join('/');
  rooms.set(room, (rooms.get(room) ?? 0) + offenders.length);
  if (!counting)
    for (const { line, word, instead } of offenders)
      console.log(`${file}:${line}: ${word} → ${instead}`);
}
if (counting)
  for (const [room, count] of [...rooms].sort())
    if (count > 0) console.log(`${String(count).padStart(5)}  ${room}`);
console.log(`${total} ${total === 1 ? 'offender' : 'offenders'} in ${files.length} files`);
process.exitCode = total > 0 && !counting ? 1 : 0;
