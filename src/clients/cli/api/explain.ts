import { CliError, exitCodes, isMisuse } from '../deps.ts';
import { plain, plural } from '../text.ts';
import { isRecord } from './json.ts';

/** The answer of the service; `json` is undefined if the body is not JSON. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: unknown;
  readonly text: string;
}

interface Called {
  readonly method: string;
  readonly url: string;
  readonly project: string;
  readonly notFound: string | undefined;
  readonly optionOf: Readonly<Record<string, string>> | undefined;
}

interface Problem {
  readonly attr: string | null;
  readonly code: string | null;
  readonly detail: string;
}

export class RefusedRequest extends CliError {
  readonly status: number;
  /** The field that the first problem is about; null: none. */
  readonly attr: string | null;

  constructor(message: string, status: number, attr: string | null, exitCode?: number) {
    super(message, exitCode);
    this.status = status;
    this.attr = attr;
  }
}

/** One line for each problem, and what to do. */
export function explainAnswer(answer: Answer, called: Called): CliError {
  const { status, json, headers } = answer;
  const problems = problemsOf(json);
  const [first] = problems;
  if (!first) return notSluice(answer, called);
  const requestId = textOf(json, 'request_id');
  if (status === 401) {
    return new CliError(
      `SLUICE_KEY: ${first.detail} Set SLUICE_KEY to a key of ${called.url}. \`sluice keys create --organization <id> --scopes '*' --name <name>\` issues one.`,
      exitCodes.refused,
    );
  }
  if (status === 403) return new CliError(explainRefusal(first.detail, called), exitCodes.refused);
  if (status === 404) {
    const said = called.notFound ?? `${first.detail} Check the id.`;
    return new RefusedRequest(`${said}${pathHint(called.url)}`, status, null);
  }
  if (status === 429) {
    const wait = headers.get('retry-after');
    const when = wait === null ? 'Try again later.' : `Try again in ${plain(wait)} s.`;
    return new CliError(
      `${first.detail.replace(/ Try again.*$/, '')} ${when}`,
      exitCodes.unreachable,
    );
  }
  if (status >= 500) {
    const report = requestId === null ? '' : ` Its log has it under request ${requestId}.`;
    return new CliError(`${called.url}: ${first.detail}${report}`, exitCodes.unreachable);
  }
  const lines = problems.map(({ attr, detail }) =>
    attr === null ? detail : `${typedName(attr, called)}: ${detail}`,
  );
  const exitCode = isOfOptions(problems, called) ? exitCodes.misused : exitCodes.failed;
  return new RefusedRequest(lines.join('\n'), status, first.attr, exitCode);
}

/** Says whether all is wrong usage: values of options that no service would take. */
function isOfOptions(problems: readonly Problem[], { method, optionOf = {} }: Called): boolean {
  return problems.every(({ attr, code }) => {
    const isOption = attr !== null && Object.hasOwn(optionOf, firstOf(attr));
    // A filter depends on nothing that is stored.
    return isOption && (method === 'GET' || isMisuse({ code }));
  });
}

const firstOf = (attr: string): string => attr.split('.')[0] ?? attr;

/** The place of the value as the person wrote it: an option, or a field of a file. */
function typedName(attr: string, { optionOf }: Called): string {
  return optionOf?.[firstOf(attr)] ?? attr;
}

function explainRefusal(detail: string, { project }: Called): string {
  if (detail.startsWith('@current')) {
    return detail.replace('Use the id of one in the path:', 'Name one with --project:');
  }
  if (detail.includes('no access to the project')) {
    return `--project ${plain(project)}: ${detail} Use the id of one of the key's projects, or a key that has access.`;
  }
  return `SLUICE_KEY: ${detail}${keyHint(detail)}`;
}

/** Adds words that the service does not know: the commands of this program. */
function keyHint(detail: string): string {
  const [, scope] = /the scope ([\w:]+)/.exec(detail) ?? [];
  if (scope !== undefined) {
    return scope.startsWith('operator:')
      ? ` Use a key that has it. \`sluice keys create --operator --scopes ${scope} --name <name>\` issues one.`
      : ` Use a key that has it. \`sluice keys create --organization <id> --scopes ${scope} --name <name>\` issues one.`;
  }
  if (detail.startsWith('This is the key of an operator')) {
    return ' `sluice status --all`, `sluice causes`, `sluice organizations`, `projects` and `keys` take the key of an operator.';
  }
  return detail.includes('no access') ? ' Use a key that has access.' : '';
}

/** The path of an address is a likely cause of a 404; a proxy may need it. */
function pathHint(url: string): string {
  const { pathname, origin } = new URL(url);
  return pathname === '/'
    ? ''
    : ` SLUICE_URL has the path ${plain(pathname)}: set it to ${origin}, unless a proxy serves Sluice below that path.`;
}

function notSluice({ status, headers }: Answer, { url }: Called): CliError {
  const target = headers.get('location');
  const redirectText = target === null ? '' : `, a redirect to ${plain(target)}`;
  return new CliError(
    `SLUICE_URL: ${url} does not answer as Sluice does (status ${status}${redirectText}). Set it to the address of the API, such as http://127.0.0.1:8000.`,
    exitCodes.unreachable,
  );
}

export function explainSilence(url: string, error: unknown, limitMs: number): string {
  const start = 'Start the service, or correct SLUICE_URL.';
  if (error instanceof Error && error.name === 'TimeoutError') {
    return `SLUICE_URL: ${url} did not answer within ${plural(limitMs / 1_000, 'second')}. ${start}`;
  }
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const reason = code || (cause instanceof Error ? cause.message : String(error));
  return `SLUICE_URL: ${url} is unreachable (${plain(reason)}). ${start}`;
}

/** The problems of an error's body; `destination__config__prefix` → `destination.config.prefix`. */
function problemsOf(json: unknown): readonly Problem[] {
  const listed = isRecord(json) && Array.isArray(json.errors) ? json.errors : [json];
  return listed.flatMap((problem: unknown): Problem[] => {
    const detail = textOf(problem, 'detail');
    if (detail === null || textOf(json, 'code') === null) return [];
    const attr = textOf(problem, 'attr')?.replaceAll('__', '.') ?? null;
    return [{ detail, attr, code: textOf(problem, 'code') }];
  });
}

function textOf(json: unknown, name: string): string | null {
  const value = isRecord(json) ? json[name] : undefined;
  return typeof value === 'string' ? plain(value) : null;
}
