import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../../..');
const page = readFileSync(path.join(root, 'docs/aws.md'), 'utf8');

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource?: string;
}

const [policy, trust] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(
  ([, json = '']) => JSON.parse(json) as { readonly Statement: readonly Statement[] },
);
const allowed = policy?.Statement.flatMap(({ Action }) => Action) ?? [];

/** The permission that each operation of S3 needs. */
const permissions: Readonly<Record<string, string>> = {
  AbortMultipartUpload: 's3:AbortMultipartUpload',
  CompleteMultipartUpload: 's3:PutObject',
  CreateMultipartUpload: 's3:PutObject',
  DeleteObject: 's3:DeleteObject',
  DeleteObjects: 's3:DeleteObject',
  GetObject: 's3:GetObject',
  HeadObject: 's3:GetObject',
  ListMultipartUploads: 's3:ListBucketMultipartUploads',
  ListObjectsV2: 's3:ListBucket',
  ListParts: 's3:ListMultipartUploadParts',
  PutObject: 's3:PutObject',
  UploadPart: 's3:PutObject',
};

test('the policy for AWS allows what the destination asks for, and nothing else', () => {
  const folder = path.join(root, 'src/rows/destinations/s3');
  const source = readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .join('\n');
  const names = source.matchAll(
    /'((?:Get|Put|Head|Delete|Create|Complete|Abort|List|Upload)[A-Z]\w+)'|\b([A-Z]\w+)Command\b/g,
  );
  const operations = new Set([...names].map(([, text, command]) => text ?? command ?? ''));
  for (const other of ['AbortError', 'AssumeRole', 'UploadId']) operations.delete(other);
  expect(operations.size).toBeGreaterThan(8);
  expect([...operations].filter((operation) => !(operation in permissions))).toEqual([]);
  const asked = new Set([...operations].map((operation) => permissions[operation] ?? ''));
  expect(allowed.toSorted()).toEqual([...asked].toSorted());
  for (const action of allowed) expect(page).toContain(`\`${action}\``);
});

test('the objects are those below the prefix, the lists those of the bucket', () => {
  expect(policy?.Statement.map(({ Resource }) => Resource)).toEqual([
    'arn:aws:s3:::acme-exports/events/*',
    'arn:aws:s3:::acme-exports',
  ]);
});

test('a role can only be assumed with the external ID', () => {
  expect(trust?.Statement).toMatchObject([
    {
      Action: 'sts:AssumeRole',
      Condition: { StringEquals: { 'sts:ExternalId': expect.anything() } },
    },
  ]);
});
