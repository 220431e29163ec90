import type { OperationName } from '../support/s3-server/operations.ts';
import { randomBytes } from 'node:crypto';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { DestinationContext } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { createOutboundAgents } from '../../src/foundation/security/outbound-filter.ts';
import {
  codeOf,
  contextWith,
  keysUnder,
  options,
  owner,
  readAll,
  recordingJournal,
} from '../conformance/destination-suite.ts';
import {
  assumed,
  credentials,
  denied,
  issued,
  partBytes,
  serve,
  start,
  startSts,
  twoParts,
  upload,
} from '../support/s3-destination.ts';
import type { Fault } from '../support/s3-server/faults.ts';
import { atNight } from '../support/nightly.ts';
import type { S3ServerOptions } from '../support/s3-server/server.ts';

describe('a manifest at S3', () => {
  const put = { operation: 'PutObject' } as const;
  const body = Buffer.from('{"run":"a"}');

  it('is committed if its answer was lost', async () => {
    const { server, destination, sent } = await start();
    server.faults.add({ match: put, effect: { loseResponse: true } });
    const { etag } = await destination.commitManifest('m.json', body, null);
    expect(etag).toBe(server.objects('exports')[0]?.etag);
    expect(sent('PutObject')).toBe(2);
  });

  it('is a conflict if the store says so and another one is current', async () => {
    const { server, destination, sent } = await start();
    await destination.commitManifest('m.json', body, null);
    server.faults.add({ match: put, effect: { status: 409, code: 'ConditionalRequestConflict' } });
    const other = destination.commitManifest('m.json', Buffer.from('{"run":"b"}'), null);
    expect([await codeOf(other), sent('PutObject')]).toEqual(['destination.conflict', 2]);
    expect(String(server.objects('exports')[0]?.body())).toBe('{"run":"a"}');
  });

  it('is committed though the store says that another request has the key', async () => {
    const { server, destination } = await start();
    const effect = { status: 409, code: 'ConditionalRequestConflict' };
    server.faults.add({ match: { ...put, key: /m\.json$/ }, effect });
    const { etag } = await destination.commitManifest('m.json', body, null);
    expect(etag).toBe(server.objects('exports').find(({ key }) => key === 'm.json')?.etag);
    // A collision says nothing about the condition: it is still kept.
    const other = destination.commitManifest('m.json', Buffer.from('{"run":"b"}'), null);
    expect(await codeOf(other)).toBe('destination.conflict');
  });
});

describe('reading from S3', () => {
  it('ends if the store sends one byte at a time', async () => {
    const started = await start({ context: { stallTimeoutMs: 400 } });
    await upload(started, randomBytes(100_000));
    const get = { operation: 'GetObject' } as const;
    started.server.faults.add({ match: get, effect: { trickleBytesPerSecond: 10 } });
    expect(await codeOf(readAll(started.destination, 'a.jsonl'))).toBe('destination.stalled');
  });

  it('does not take a slow reader of ours for a stall', async () => {
    const started = await start({ context: { stallTimeoutMs: 300 } });
    const bytes = randomBytes(16 * partBytes);
    await upload(started, bytes);
    await upload(started, twoParts, 'b.jsonl');
    const match = { operation: 'GetObject', key: /^b/ } as const;
    started.server.faults.add({ match, times: 3, effect: { trickleBytesPerSecond: 10 } });
    const found = await started.destination.readFile('a.jsonl');
    let read = 0;
    for await (const chunk of found?.body ?? []) {
      // Other bodies stall three times while this one waits for its reader.
      if (read === 0) {
        for (let stall = 0; stall < 3; stall += 1) {
          expect(await codeOf(readAll(started.destination, 'b.jsonl'))).toBe('destination.stalled');
        }
      }
      read += chunk.length;
    }
    expect(read).toBe(bytes.length);
  });

  atNight('lists more objects than one answer holds', async () => {
    const { destination } = await start();
    const keys = Array.from({ length: 1003 }, (_, index) => `k/${String(index).padStart(4, '0')}`);
    const left = keys.values();
    const put = async () => {
      for (const key of left) await destination.commitManifest(key, Buffer.from('{}'), null);
    };
    await Promise.all(Array.from({ length: 8 }, put));
    expect(await keysUnder(destination, 'k/')).toEqual(keys);
  });

  it('reports a body that breaks off', async () => {
    const started = await start();
    await upload(started, twoParts);
    const get = { operation: 'GetObject' } as const;
    started.server.faults.add({ match: get, effect: { resetAfterBytes: 100_000 } });
    expect(await codeOf(readAll(started.destination, 'a.jsonl'))).toBe('destination.unavailable');
  });
});

describe('the test of an S3 destination', () => {
  type Failing = readonly [
    name: string,
    step: string,
    error: RegExp,
    given: {
      readonly config?: Record<string, unknown>;
      readonly server?: Partial<S3ServerOptions>;
      readonly fault?: Fault;
      readonly context?: () => Partial<DestinationContext>;
    },
  ];
  const match = (operation: OperationName) => ({ match: { operation }, effect: denied });
  const noAddress = /The endpoint cannot be reached/;
  const at = (endpoint_url: string) => ({ config: { endpoint_url } });
  const expired = { credentials: { ...credentials, expired: true } };
  const region = { buckets: [{ name: 'exports', region: 'eu-west-1' }] };
  const key = { config: { aws_access_key_id: 'AKIACANARY0000000002' } };
  const secret = { config: { aws_secret_access_key: 'canary-wrong' } };
  const missingKey = { encryption: 'aws:kms', kms_key_id: 'missing' };
  const failing: readonly Failing[] = [
    [
      'an address that is not allowed',
      'address',
      noAddress,
      { context: () => createOutboundAgents([]) },
    ],
    ['an address without a listener', 'address', noAddress, at('http://127.0.0.1:1')],
    ['a name that does not resolve', 'address', noAddress, at('http://store.invalid')],
    ['an unknown key', 'credentials', /invalid_credentials/, key],
    ['a wrong secret', 'credentials', /invalid_credentials/, secret],
    ['expired credentials', 'credentials', /expired_credentials/, { server: expired }],
    [
      'a bucket that is not there',
      'bucket',
      /bucket_not_found/,
      { config: { bucket_name: 'elsewhere' } },
    ],
    ['a bucket of another region', 'bucket', /wrong_region.*eu-west-1/, { server: region }],
    ['writing that is denied', 'write', /access_denied/, { fault: match('CreateMultipartUpload') }],
    [
      'a KMS key that is not there',
      'encryption',
      /kms_denied/,
      { config: missingKey, server: { kmsKeys: ['other'] } },
    ],
    [
      'deleting that is denied',
      'delete',
      /access_denied/,
      { fault: { ...match('DeleteObject'), probability: 1 } },
    ],
  ];

  it.each(failing)('for %s names %s', async (_, step, error, { fault, context, ...rest }) => {
    const { server, destination } = await start({ ...rest, context: context?.() ?? {} });
    if (fault) server.faults.add(fault);
    const steps = await destination.test(AbortSignal.timeout(10_000));
    const failed = steps.filter((each) => !each.passed);
    expect(failed.map((each) => each.step)).toEqual([step]);
    expect(steps.at(-1)).toBe(failed[0]);
    expect(failed[0]?.error).toMatch(error);
    // No key and no secret in what the owner sees.
    expect(JSON.stringify(steps)).not.toMatch(/CANARY|canary/);
  });

  it('warns if listing is denied, and continues', async () => {
    const { server, destination } = await start();
    server.faults.add({ match: { operation: 'ListObjectsV2' }, effect: denied });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.every((each) => each.passed)).toBe(true);
    expect(steps.find((each) => each.step === 'bucket')?.warning).toMatch(/list/);
  });

  it('writes its marker below the part of the prefix that has no variable', async () => {
    const { server, destination } = await start({ config: { prefix: '/a/b/{year}/c' } });
    await destination.test(AbortSignal.timeout(10_000));
    const keys = server.requests.filter((entry) => entry.key).map((entry) => entry.key);
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) expect(key).toMatch(/^a\/(b\/)?\.sluice-test-/);
  });
});

describe('a connection to S3', () => {
  it('fails at once, with one request, if only the owner can help', async () => {
    const { server, destination } = await start({ config: { aws_secret_access_key: 'wrong' } });
    const file = destination.createFile(options('a'), recordingJournal().journal);
    expect(await codeOf(file)).toBe('destination.invalid_credentials');
    expect(server.requests).toHaveLength(1);
  });

  it('is made with the process’s own credentials only if the settings allow it', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', credentials.accessKeyId);
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', credentials.secretAccessKey);
    onTestFinished(() => void vi.unstubAllEnvs());
    const none = { aws_access_key_id: null, aws_secret_access_key: null };
    const lent = { allowAmbientCredentials: true };
    const started = await start({ config: none, context: lent });
    expect(s3Definition.validate(started.config, started.context)).toEqual([]);
    expect(s3Definition.validate(started.config, contextWith({}))).not.toEqual([]);
    await upload(started, twoParts);
    expect(started.server.objects('exports')).toHaveLength(1);
  });

  it('does not follow a redirect', async () => {
    let hits = 0;
    const target = await serve((_, response) => {
      hits += 1;
      response.end();
    });
    const redirecting = await serve((_, response) => {
      response.writeHead(307, { location: `http://127.0.0.1:${target}/` }).end();
    });
    const endpoint_url = `http://127.0.0.1:${redirecting}`;
    const { destination } = await start({ config: { endpoint_url } });
    expect(await codeOf(destination.readFile('a'))).toBe('destination.wrong_region');
    expect(hits).toBe(0);
  });
});

describe('a role', () => {
  const role = { role_arn: 'arn:aws:iam::123456789012:role/exports' };

  it('is assumed by a host whose clock is wrong', async () => {
    const theirs = new Date();
    theirs.setUTCFullYear(theirs.getUTCFullYear() + 2);
    const date = theirs.toUTCString();
    const sts = await startSts((signedAt) =>
      signedAt.startsWith(String(theirs.getUTCFullYear()))
        ? { ...assumed(), date }
        : {
            ...{ status: 403, date },
            xml: '<ErrorResponse><Error><Type>Sender</Type><Code>SignatureDoesNotMatch</Code><Message>Signature expired</Message></Error></ErrorResponse>',
          },
    );
    const started = await start({
      config: role,
      context: { stsEndpoint: sts.endpoint },
      server: { credentials: issued },
    });
    await upload(started, twoParts);
    expect(sts.calls).toHaveLength(2);
  });

  it('is assumed with the external id of the project, once for many requests', async () => {
    const sts = await startSts(() => assumed());
    const started = await start({
      config: role,
      context: { stsEndpoint: sts.endpoint },
      server: { credentials: issued },
    });
    await upload(started, twoParts);
    expect(started.server.objects('exports')).toHaveLength(1);
    expect(sts.calls).toHaveLength(1);
    expect(Object.fromEntries(sts.calls[0] ?? [])).toMatchObject({
      Action: 'AssumeRole',
      RoleArn: role.role_arn,
      ExternalId: owner.externalId,
    });
  });

  it('is asked for again if a proxy answers in place of STS', async () => {
    const sts = await startSts(() => ({ status: 403, xml: '<html><body>Forbidden</body></html>' }));
    const { destination } = await start({ config: role, context: { stsEndpoint: sts.endpoint } });
    expect(await codeOf(destination.readFile('a'))).toBe('destination.not_a_store');
    expect(sts.calls).toHaveLength(5);
  });

  it('that may not be assumed is a fault of the credentials', async () => {
    const sts = await startSts(() => ({
      status: 403,
      xml: '<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User AKIACANARY0000000001 is not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>',
    }));
    const { destination } = await start({ config: role, context: { stsEndpoint: sts.endpoint } });
    const steps = await destination.test(AbortSignal.timeout(10_000));
    expect(steps.at(-1)).toMatchObject({ step: 'credentials', passed: false });
    expect(steps.at(-1)?.error).toMatch(/invalid_credentials.*cannot assume the role/);
    expect(JSON.stringify(steps)).not.toMatch(/CANARY|canary/);
  });
});
