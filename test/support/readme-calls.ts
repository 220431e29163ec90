import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ApiDocument, Operation } from './openapi.ts';
import { projectRoot } from './processes.ts';

/** A call of the README, as curl would get it. */
export interface ReadmeCall {
  readonly operation: Operation;
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Of the body; null if it sends none. */
  readonly json: string | null;
}

/** The README's curl commands, with the arguments that the shell itself passes. */
export async function readReadmeCalls(document: ApiDocument): Promise<readonly ReadmeCall[]> {
  const readme = await readFile(path.join(projectRoot, 'docs/quickstart.md'), 'utf8');
  const blocks = [...readme.matchAll(/```sh\n((?:KEY|hours_ago)[\s\S]*?)```/g)].map(
    ([, block]) => block,
  );
  const printArguments = `curl() { printf '%s\\0' "$@"; printf 'end of call\\0'; }`;
  const script = `KEY=key S3=http://127.0.0.1:20000 ID=00000000-0000-4000-8000-000000000000\n${printArguments}\n${blocks.join('\n')}`;
  const { stdout } = await promisify(execFile)('sh', ['-c', script]);
  const calls = stdout.split('end of call\0').slice(0, -1);
  return calls.map((call) => callOf(document, call.split('\0').slice(0, -1)));
}

/** The body of a call of the README with another model than `events`: that of the shop. */
export function onOrders(json: string | null | undefined): string {
  const query = 'SELECT "orderId", "Details"."Plan" AS plan FROM orders WHERE state <> \'new\'';
  return JSON.stringify({ ...JSON.parse(json ?? '{}'), model: 'orders', dsl_query: query });
}

function callOf(document: ApiDocument, curl: readonly string[]): ReadmeCall {
  const after = (flag: string) => (curl.includes(flag) ? curl[curl.indexOf(flag) + 1] : undefined);
  const address = curl.find((argument) => argument.startsWith('http')) ?? '';
  const given = new URL(address).pathname.replace(/\/$/, '');
  const method = after('-X') ?? 'GET';
  for (const operation of document.operations) {
    const pattern = operation.path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)');
    const match = new RegExp(`^${pattern}$`).exec(given);
    if (!match || operation.method.toUpperCase() !== method) continue;
    return { operation, path: given, parameters: { ...match.groups }, json: after('-d') ?? null };
  }
  throw new Error(`the document has no ${method} ${given}`);
}
