import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSubject } from '../../conformance/s3-protocol-subject.ts';
import { openForeignS3 } from '../../support/foreign-s3.ts';
import { formatTable, measureFacts, readDocumentedFacts } from '../facts.ts';
import { readStore } from '../store.ts';

const store = readStore();
const documented = readDocumentedFacts(store.title.replace(/^(.* \d+\.\d+).*/, '$1'));

let measured: ReadonlyMap<string, string> = new Map();
beforeAll(async () => {
  const bucket = 'facts';
  await (await openForeignS3(store, bucket)).close();
  const subject = openSubject({ ...store, bucket, close: async () => {} });
  measured = await measureFacts(subject);
});
afterAll(() => console.log(`\n${formatTable(store.title, measured)}\n`));

test.each([...documented])('does what our README says: %s', (question, answer) => {
  expect(measured.get(question)).toBe(answer);
});
