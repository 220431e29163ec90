import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Destination } from '../../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../../src/rows/destinations/s3/definition.ts';
import {
  codeOf,
  contextWith,
  options,
  owner,
  readAll,
  recordingJournal,
  uploadOf,
} from '../../conformance/destination-suite.ts';
import { openForeignS3 } from '../../support/foreign-s3.ts';
import { until } from '../../support/until.ts';
import { readStore } from '../store.ts';

const partBytes = 5 * 1024 ** 2;

const store = readStore();
let destination: Destination;
beforeAll(async () => {
  await (await openForeignS3(store, 'lost')).close();
  const config = {
    bucket_name: 'lost',
    region: store.region,
    aws_access_key_id: store.credentials.accessKeyId,
    aws_secret_access_key: store.credentials.secretAccessKey,
    endpoint_url: store.endpoint,
  };
  destination = s3Definition.open(config, contextWith({ partBytes }), owner);
});
afterAll(() => destination?.close());

test('an upload that is aborted after its last part was sent is lost, and not retried for ever', async () => {
  const { journal, sent } = recordingJournal();
  const writer = await destination.createFile(options('aborted.jsonl'), journal);
  // Whole parts: nothing is left to send but the Complete.
  await writer.write(Buffer.alloc(partBytes, 'x'));
  await until(() => sent.length === 1, { message: 'the part has arrived' });
  await destination.abortUpload(uploadOf(writer));
  expect(await codeOf(writer.complete())).toBe('destination.upload_lost');
  expect(await destination.readFile('aborted.jsonl')).toBeNull();
});

test('an abort of an upload that is complete does no harm and says nothing', async () => {
  const { journal } = recordingJournal();
  const writer = await destination.createFile(options('complete.jsonl'), journal);
  await writer.write(Buffer.from('bytes'));
  await writer.complete();
  await destination.abortUpload(uploadOf(writer));
  expect(String(await readAll(destination, 'complete.jsonl'))).toBe('bytes');
});
