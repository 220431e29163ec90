import { afterAll, beforeAll, describe, test } from 'vitest';
import { startS3Server } from '../support/s3-server/server.ts';
import { multipartRules } from './s3-protocol-multipart.ts';
import { conditionRules, objectRules } from './s3-protocol-objects.ts';
import { signatureRules } from './s3-protocol-signatures.ts';
import { openSubject, type Subject } from './s3-protocol-subject.ts';

const rules = { ...signatureRules, ...objectRules, ...conditionRules, ...multipartRules };

describe("the test kit's own S3 server", () => {
  let close: () => Promise<void>;
  let subject: Subject;
  beforeAll(async () => {
    const bucket = 'protocol';
    const region = 'us-east-1';
    const credentials = { accessKeyId: 'AKIAPROTOCOL', secretAccessKey: 'protocol-secret' };
    const server = await startS3Server({ buckets: [bucket], region, credentials });
    close = server.close;
    subject = openSubject({ endpoint: server.endpoint, bucket, region, credentials, close });
  });
  afterAll(async () => {
    subject?.s3.destroy();
    await close?.();
  });

  test.each(Object.entries(rules))('%s', (_, check) => check(subject));
});
