import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import openapiTypescript, { type OpenAPI3 } from 'openapi-typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ApiUnderTest, startApiUnderTest } from '../../support/api-under-test.ts';
import { type ApiDocument, type Operation, readDocument } from '../../support/openapi.ts';
import { projectRoot } from '../../support/processes.ts';
import { onOrders, type ReadmeCall, readReadmeCalls } from '../../support/readme-calls.ts';

const run = promisify(execFile);

let api: ApiUnderTest;
let document: ApiDocument;
let folder: string;
let examples: readonly ReadmeCall[];

beforeAll(async () => {
  api = await startApiUnderTest();
  document = await readDocument(api.client);
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-client-'));
  await writeFile(
    path.join(folder, 'api.ts'),
    await openapiTypescript(document.raw as unknown as OpenAPI3),
  );
  examples = await readReadmeCalls(document);
});
afterAll(async () => {
  await api.stop();
  await rm(folder, { recursive: true });
});

/** The types of a generated client, of one call. */
function typesOf({ method, path: template, statuses }: Operation) {
  const operation = `paths['${template}']['${method.toLowerCase()}']`;
  const status = statuses.find((candidate) => candidate.startsWith('2'));
  return {
    parameters: `${operation}['parameters']['path']`,
    body: `NonNullable<${operation}['requestBody']>['content']['application/json']`,
    answer: `${operation}['responses'][${status}]['content']['application/json']`,
  };
}

/** What the compiler says of a program that uses the generated types. */
async function compile(program: string): Promise<string> {
  await writeFile(path.join(folder, 'program.ts'), program);
  const options = {
    strict: true,
    noEmit: true,
    target: 'es2022',
    module: 'nodenext',
    allowImportingTsExtensions: true,
    exactOptionalPropertyTypes: true,
    types: [],
  };
  await writeFile(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, files: ['program.ts'] }),
  );
  const compiler = path.join(projectRoot, 'node_modules/typescript/bin/tsc');
  const failed = (error: { stdout?: string }) => ({ stdout: error.stdout || String(error) });
  return (await run(process.execPath, [compiler, '-p', folder]).catch(failed)).stdout;
}

const head = "import type { paths } from './api.ts';\n";

/** A program that makes the calls of the README, as far as types go. */
function programOf(calls: readonly ReadmeCall[]): string {
  const lines = calls.map(({ operation, parameters, json }, n) => {
    const types = typesOf(operation);
    const body = json === null ? '' : `export const body${n}: ${types.body} = ${json};\n`;
    return (
      `export const parameters${n}: ${types.parameters} = ${JSON.stringify(parameters)};\n${body}` +
      `export declare const answer${n}: ${types.answer};\n`
    );
  });
  return head + lines.join('');
}

test('the README shows how to create, backfill, and read runs and logs', () => {
  expect(examples.map(({ operation }) => operation.id)).toEqual([
    'createBatchExport',
    'backfillBatchExport',
    'listBatchExportRuns',
    'listBatchExportLogs',
  ]);
});

test("the README's calls type-check against the generated client, and so does what is read of their answers", async () => {
  const reads = [
    'export const id: string = answer0.id;',
    "export const backfill: string | undefined = 'dry_run' in answer1 ? '' : answer1.backfill_id;",
    'export const runStatus: string | undefined = answer2.results[0]?.status;',
    'export const rows: number | null | undefined = answer2.results[0]?.records_completed;',
    'export const message: string | undefined = answer3.results[0]?.message;',
    'export const next: string | null = answer3.next;',
  ];
  const [create, ...others] = examples;
  const calls = [{ ...create, json: onOrders(create?.json) } as ReadmeCall, ...others];
  for (const made of [examples, calls]) {
    expect(await compile(programOf(made) + reads.join('\n'))).toBe('');
  }
});

test('the generated client refuses a call that the API refuses', async () => {
  const [create] = examples;
  const types = typesOf((create as ReadmeCall).operation);
  const program = `${head}export const body: ${types.body} = ${create?.json?.replace('"hour"', '60')};\n`;
  expect(await compile(program)).toContain("Type 'number' is not assignable");
});

test('what the README creates is created, also of a model of the installation', async () => {
  await api.shop.open();
  // The tenant under test has two projects, so that it must name one.
  for (const raw of [examples[0]?.json ?? '', onOrders(examples[0]?.json)]) {
    const answer = await api.client.send('POST', `${api.project}/batch_exports`, { raw });
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body.model).toBe(JSON.parse(raw).model ?? 'events');
  }
});
