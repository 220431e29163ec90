/**
 * Finds the words of the list below in every file of ours that a person reads, and says what to write instead.
 *
 *   node scripts/lint-words.mjs            prints `file:line: word → what to write`; exits 1 if there is any
 *
 * Works in the current folder, a git work tree; with paths, on these only. It reads comments, strings, JSX text
 * and Markdown. It skips SQL, code in Markdown and generated parts. Of identifiers it checks a few words.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';

const skippedFiles = [
  'package-lock.json',
  'docs/internals/style.md',
  'scripts/lint-words.mjs',
  'test/unit/lint-words.test.ts',
  // Written by `npm run docs` from sources that are checked.
  'docs/errors.md',
  '.env.example',
];

// In place of a piece of inline code, so that "where `x` is true" is still seen.
const CODE = '\u00a4';
// In place of anything that is not prose; no pattern crosses it.
const GAP = '\ue000';

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

/**
 * Each rule: what is found, what to write instead, and which strings it leaves out: `sql` those that are
 * surely SQL, `maybe sql` also those that could be.
 */
const rules = [
  [/\btold\b/gi, 'said, reported, notified', 'sql'],
  [/\btells\b(?!.{1,40}\bapart\b)/gi, 'says, reports'],
  [/\btell(?:ing)? of\b/gi, 'report'],
  [/\bmend(?:s|ed|ing)?\b/gi, 'fix'],
  [
    /\bpassing (?:fault|error|failure|trouble|problem|condition|reason|cause|one|ones)s?\b/gi,
    'transient',
  ],
  [/\bwhoever\b/gi, 'name the actor'],
  [/(?<!\ue000)\b[Nn]obody\b(?!@|\ue000)/g, 'name the actor; state it positively'],
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
    'sql',
  ],
  // Any other subject; in strings it may be SQL.
  [
    new RegExp(
      `(?<!\\b(?:${placeWords})\\s+|^[^\\w]*)\\bwhere (?!(?:${subject})\\b)(?:[a-z][a-z’']+|Postgres(?:QL)?|Redis|S3|Sluice)\\b(?![\\w-])(?!\\s*(?:=|<|>|\\(|is\\b|in\\b|~|\\.))`,
      'g',
    ),
    'if',
    'maybe sql',
  ],
  // At the start of a sentence it names a place, unless a main clause follows.
  [new RegExp(`\\bWhere (?:${subject})(?![\\w-])(?=[^.;:\\ue000]{4,120},)`, 'g'), 'If', 'sql'],
  [
    /\bone an? (?:line|page|file|interval|row|run|export|process|worker|tenant|project|key|day|hour|minute|second|time|test|table|aggregate|block|part|tick|folder|column|field)\b/gi,
    'one per …',
  ],
  [
    /\b(?:free|worker's|enough|worker) places\b|\bplaces? of (?:a|the|its|one|each) workers?\b|\bplaces (?:free|taken|left)\b/gi,
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
    /(?<=^|[.:>"'`\ue000] ?)(?:Least|Most) (?:seconds|minutes|hours|days|rows|bytes|connections|requests|runs|level|number|MiB|times|attempts)\b/gm,
    'minimum, maximum',
  ],
  [/\bnothing to do:/gi, 'No action needed:'],
  [/\bunder way\b/gi, 'in progress'],
  [/\bnevertheless\b/gi, 'anyway, still'],
  [/\bin the place of\b/gi, 'instead of'],
  [/\b(?:newest|oldest|first|last) so many\b|\bso many of the\b/gi, 'the number of'],
  [/\b(?:needed|used|wanted|listed|known|sent|shown) no more\b(?! than\b)/gi, 'no longer'],
  [
    /\b\d[\d,.]* (?:rows|runs|requests|exports|statements|events|bytes|[KMG]iB|jobs|messages|times) an? (?:second|minute|hour|day)\b/gi,
    'per second, per day',
  ],
  [/\b(?:hold|holds|held) (?!.{0,30}[.,;:])(?:\w+ ){1,4}against\b/gi, 'check … against'],
];

const identifierWords = new Map([
  ['told', 'said'],
  ['mend', 'fix'],
  ['mends', 'fixes'],
  ['mended', 'fixed'],
  ['nobody', 'name the actor'],
  ['whoever', 'name the actor'],
  ['rung', 'enqueued'],
]);

/** Puts `filler` in place of every character but white space. */
const blank = (text, filler = GAP) => text.replace(/\S/g, filler);
const inlineCode = (text) => text.replace(/`[^`\n]*`/g, (code) => CODE.repeat(code.length));

const sqlMarks =
  /\b(?:select\b[^.]*\bfrom|insert into|update \w+(?: \w+)? set|delete from|returning|create (?:unique )?(?:table|index)|alter table|order by|group by|is (?:not )?null|exists ?\(|left join|inner join)|[=<>] ?(?:\$\d|\$\{|any|')/i;
const looseSqlMarks =
  /[a-z]_[a-z]|\$\d|::|[a-z]\.[a-z]|[=<>]|\bset\b|\bfrom\b|\bnot\b(?: \w+)?$|^.where /i;

/** Comments, strings and regular expressions; what is between them is code. */
const pieces =
  /(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/)|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\$]|\\[\s\S]|\$(?!\{)|\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\})*`|(?<=[=(,:!&|?;{}\n>][ \t]*)\/(?![*/ ])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[dgimsuvy]*/g;

/** The text between two JSX tags or holes. */
const jsxText = /(?<=>)[^<>{}=;]*(?=[<{])|(?<=\})[^<>{}=;()]*(?=[<{])/g;

/** Splits a program: `prose` and `code` have the length of `text`, each blank where the other one is. */
function ofScript(text, isTsx) {
  let prose = '';
  let code = '';
  const strings = [];
  const addCode = (piece) => {
    let at = 0;
    for (const match of isTsx ? piece.matchAll(jsxText) : []) {
      const before = piece.slice(at, match.index);
      prose += blank(before) + match[0];
      code += before + blank(match[0], ' ');
      at = match.index + match[0].length;
    }
    prose += blank(piece.slice(at));
    code += piece.slice(at);
  };
  let at = 0;
  for (const match of text.matchAll(pieces)) {
    const [piece] = match;
    addCode(text.slice(at, match.index));
    at = match.index + piece.length;
    if (match.groups.comment === undefined) {
      strings.push({
        from: match.index,
        to: at,
        isSql: sqlMarks.test(piece),
        isMaybeSql: looseSqlMarks.test(piece),
        isTestName: /\b(?:describe|it|test)\b[^\n]*\(\s*$/.test(
          text.slice(match.index - 60, match.index),
        ),
      });
      const holes = /\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g;
      prose += GAP + piece.slice(1, -1).replace(holes, (hole) => blank(hole, CODE)) + GAP;
    } else {
      prose += inlineCode(
        piece.replace(/^\s*(?:\/\/+|\/\*+|\*(?!\/))|\*\/$/gm, (mark) => blank(mark, ' ')),
      );
    }
    code += blank(piece, ' ');
  }
  addCode(text.slice(at));
  return { prose, code, strings };
}

function ofMarkdown(text) {
  const parts = /<!-- \w+: npm run docs[\s\S]*?<!-- \/\w+ -->|^ *```[\s\S]*?^ *```/gm;
  return inlineCode(text.replace(parts, (part) => blank(part)));
}

/** The comments of a language whose comments go from `mark` to the end of the line. */
function ofMarked(text, mark) {
  const lines = text.split('\n').map((line) => {
    const at = line.search(mark);
    if (at < 0) return blank(line);
    return (
      blank(line.slice(0, at)) +
      inlineCode(line.slice(at).replace(/^\s?(?:--|#)+/, (lead) => blank(lead, ' ')))
    );
  });
  return lines.join('\n');
}

function read(file) {
  const text = readFileSync(file, 'utf8');
  const kind = extname(file);
  if (/^\.(?:tsx?|[mc]?js|css)$/.test(kind)) return ofScript(text, kind === '.tsx');
  const prose =
    kind === '.md'
      ? ofMarkdown(text)
      : kind === '.sql'
        ? ofMarked(text, /(?:^|\s)--/)
        : /^\.(?:ya?ml|json|html)$/.test(kind)
          ? text
          : ofMarked(text, /(?:^|\s)#/);
  return { prose, code: '', strings: [] };
}

const isRead = (file) =>
  !skippedFiles.includes(file) &&
  (/\.(?:tsx?|[mc]js|md|sql|ya?ml|json|css|html|service|conf)$/.test(file) ||
    /^(?:\.ci\/run|Dockerfile|Procfile)$/.test(file));

function listFiles(...paths) {
  const args = ['ls-files', '--cached', '--others', '--exclude-standard', '--', ...paths];
  return execFileSync('git', args, { encoding: 'utf8' })
    .split('\n')
    .filter((file) => file !== '' && existsSync(file));
}

let sources;
/** Whether src has this text: a test that asserts a message of ours changes together with the message. */
function isInSource(text) {
  sources ??= listFiles('src')
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  return sources.includes(text);
}

/** The words around a match, within the literal text of its string. */
function around(prose, { from, to }, match) {
  const start = Math.max(from + 1, match.index - 12);
  const end = Math.min(to - 1, match.index + match[0].length + 12);
  const literals = prose.slice(start, end).split(/[\ue000\u00a4]+/);
  return literals.find((literal) => literal.includes(match[0])) ?? match[0];
}

function isAllowed(file, prose, string, match, leavesOut) {
  if (leavesOut !== undefined && (string.isSql || match[0].includes(CODE))) return true;
  if (leavesOut === 'maybe sql' && string.isMaybeSql) return true;
  if (!file.startsWith('test/') || string.isTestName) return false;
  const words = around(prose, string, match);
  return /\w\W+\w/.test(words) && isInSource(words);
}

function* offendersIn(file) {
  const { prose, code, strings } = read(file);
  const lineAt = (index) => prose.slice(0, index).split('\n').length;
  for (const [pattern, instead, leavesOut] of rules) {
    // The words may be on two lines.
    const spaced = new RegExp(pattern.source.replaceAll(' ', '\\s+'), pattern.flags);
    for (const match of prose.matchAll(spaced)) {
      const string = strings.find(({ from, to }) => match.index >= from && match.index < to);
      if (string && isAllowed(file, prose, string, match, leavesOut)) continue;
      const word = match[0].replace(/\s+/g, ' ').replaceAll(/\u00a4+/g, '…');
      yield { line: lineAt(match.index), word, instead };
    }
  }
  for (const match of code.matchAll(/[A-Za-z_$][\w$]*/g)) {
    for (const part of match[0].split(/_|(?<=[a-z0-9])(?=[A-Z])/)) {
      const instead = identifierWords.get(part.toLowerCase());
      if (instead !== undefined) yield { line: lineAt(match.index), word: match[0], instead };
    }
  }
}

const print = (line) => process.stdout.write(`${line}\n`);
const files = listFiles(...process.argv.slice(2)).filter(isRead);
let total = 0;
for (const file of files) {
  const offenders = [...offendersIn(file)].sort((one, other) => one.line - other.line);
  total += offenders.length;
  for (const { line, word, instead } of offenders) print(`${file}:${line}: ${word} → ${instead}`);
}
const counted = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
print(`${counted(total, 'offender')} in ${counted(files.length, 'file')}`);
process.exitCode = total > 0 ? 1 : 0;
