import { createHash } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  type CompleteMultipartUploadCommandInput,
  CreateMultipartUploadCommand,
  type CreateMultipartUploadCommandInput,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { expect } from 'vitest';
import { type Rules, refusal, type Subject } from './s3-protocol-subject.ts';

const minPartBytes = 5 * 1024 ** 2;
const big = Buffer.alloc(minPartBytes, 'big part ');

interface Upload {
  part(number: number, body: Buffer | string): Promise<CompletedPart>;
  complete(
    parts: CompletedPart[],
    more?: Partial<CompleteMultipartUploadCommandInput>,
  ): Promise<string>;
  abort(): Promise<unknown>;
  ids: { Bucket: string; Key: string; UploadId: string };
}

async function begin(
  { s3, bucket }: Subject,
  key: string,
  more: Partial<CreateMultipartUploadCommandInput> = {},
): Promise<Upload> {
  const object = { Bucket: bucket, Key: key };
  const { UploadId = '' } = await s3.send(new CreateMultipartUploadCommand({ ...object, ...more }));
  const ids = { ...object, UploadId };
  return {
    ids,
    async part(PartNumber, Body) {
      const { ETag, ChecksumCRC32, ChecksumSHA256 } = await s3.send(
        new UploadPartCommand({
          ...ids,
          PartNumber,
          Body,
          ChecksumAlgorithm: more.ChecksumAlgorithm,
        }),
      );
      const checksum = more.ChecksumAlgorithm ? { ChecksumCRC32, ChecksumSHA256 } : {};
      return { PartNumber, ETag, ...checksum };
    },
    async complete(Parts, input = {}) {
      const command = { ...ids, MultipartUpload: { Parts }, ...input };
      return (await s3.send(new CompleteMultipartUploadCommand(command))).ETag ?? '';
    },
    abort: () => s3.send(new AbortMultipartUploadCommand(ids)),
  };
}

const md5 = (data: Buffer | string): Buffer => createHash('md5').update(data).digest();

const compositeEtag = (...parts: (Buffer | string)[]): string =>
  `"${md5(Buffer.concat(parts.map(md5))).toString('hex')}-${parts.length}"`;

/** https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html and the API reference of each operation */
export const multipartRules: Rules = {
  'parts become one object whose ETag is the MD5 of their MD5s and their number': async (
    subject,
  ) => {
    const upload = await begin(subject, 'mp/whole', {
      ContentType: 'text/plain',
      Metadata: { run: '7' },
    });
    const [second, first] = [await upload.part(7, 'the end'), await upload.part(2, big)];
    const before = await subject.raw({ key: 'mp/whole' });
    expect(before.status).toBe(404);
    expect(await upload.complete([first, second])).toBe(compositeEtag(big, 'the end'));
    const got = await subject.raw({ key: 'mp/whole' });
    expect(got.text === `${big}the end`).toBe(true);
    expect(got.headers['content-type']).toBe('text/plain');
    expect(got.headers['x-amz-meta-run']).toBe('7');
  },

  'a part that was never sent, or with another ETag, is InvalidPart': async (subject) => {
    const upload = await begin(subject, 'mp/invalid');
    const part = await upload.part(1, 'x');
    expect(await refusal(upload.complete([part, { ...part, PartNumber: 2 }]))).toMatch(
      /^400 InvalidPart$/,
    );
    const other = { ...part, ETag: '"00000000000000000000000000000000"' };
    expect(await refusal(upload.complete([other]))).toBe('400 InvalidPart');
    await upload.complete([part]);
  },

  'parts out of order, or twice, are InvalidPartOrder': async (subject) => {
    const upload = await begin(subject, 'mp/order');
    const [one, two] = [await upload.part(1, big), await upload.part(2, 'x')];
    expect(await refusal(upload.complete([two, one]))).toBe('400 InvalidPartOrder');
    expect(await refusal(upload.complete([one, one]))).toBe('400 InvalidPartOrder');
    await upload.complete([one, two]);
  },

  'a part below 5 MiB that is not the last is EntityTooSmall': async (subject) => {
    const upload = await begin(subject, 'mp/small');
    const small = await upload.part(1, big.subarray(0, minPartBytes - 1));
    const last = await upload.part(2, 'x');
    expect(await refusal(upload.complete([small, last]))).toBe('400 EntityTooSmall');
    await upload.abort();
  },

  'part numbers are 1 to 10,000': async (subject) => {
    const upload = await begin(subject, 'mp/numbers');
    for (const number of [0, 10_001]) {
      expect(await refusal(upload.part(number, 'x'))).toBe('400 InvalidArgument');
    }
    const last = await upload.part(10_000, 'last');
    expect(await upload.complete([last])).toBe(compositeEtag('last'));
  },

  'an aborted or unknown upload is NoSuchUpload': async (subject) => {
    const upload = await begin(subject, 'mp/aborted');
    const part = await upload.part(1, 'x');
    await upload.abort();
    expect(await refusal(upload.part(2, 'x'))).toBe('404 NoSuchUpload');
    expect(await refusal(upload.complete([part]))).toBe('404 NoSuchUpload');
    expect(await refusal(upload.abort())).toBe('404 NoSuchUpload');
    expect((await subject.raw({ key: 'mp/aborted' })).status).toBe(404);
  },

  'a complete that is sent again is answered as the first': async (subject) => {
    const upload = await begin(subject, 'mp/repeated');
    const part = await upload.part(1, 'x');
    const first = await upload.complete([part]);
    expect(await upload.complete([part])).toBe(first);
  },

  'a complete with If-None-Match: * is refused with 412 if the object exists': async (subject) => {
    const fresh = await begin(subject, 'mp/conditional');
    await fresh.complete([await fresh.part(1, 'first')], { IfNoneMatch: '*' });
    const late = await begin(subject, 'mp/conditional');
    const part = await late.part(1, 'second');
    expect(await refusal(late.complete([part], { IfNoneMatch: '*' }))).toBe(
      '412 PreconditionFailed',
    );
    expect((await subject.raw({ key: 'mp/conditional' })).text).toBe('first');
    await late.abort();
  },

  'a complete with If-Match replaces the version it names and no other': async (subject) => {
    const key = { Bucket: subject.bucket, Key: 'mp/if-match' };
    const { ETag } = await subject.s3.send(new PutObjectCommand({ ...key, Body: 'first' }));
    const upload = await begin(subject, key.Key);
    await upload.complete([await upload.part(1, 'second')], { IfMatch: ETag });
    const late = await begin(subject, key.Key);
    const part = await late.part(1, 'third');
    expect(await refusal(late.complete([part], { IfMatch: ETag }))).toBe('412 PreconditionFailed');
    expect((await subject.raw({ key: key.Key })).text).toBe('second');
    await late.abort();
  },

  'a composite checksum is the checksum of the checksums of the parts': async (subject) => {
    const upload = await begin(subject, 'mp/checksum', { ChecksumAlgorithm: 'SHA256' });
    const part = await upload.part(1, 'x');
    expect(part.ChecksumSHA256).toBe(createHash('sha256').update('x').digest('base64'));
    const bare = { PartNumber: 1, ETag: part.ETag };
    expect(await refusal(upload.complete([bare]))).toBe('400 InvalidRequest');
    await upload.complete([part]);
    const head = await subject.raw({
      method: 'HEAD',
      key: 'mp/checksum',
      headers: { 'x-amz-checksum-mode': 'ENABLED' },
    });
    const digest = createHash('sha256').update('x').digest();
    const composite = createHash('sha256').update(digest).digest('base64');
    expect(head.headers['x-amz-checksum-sha256']).toBe(`${composite}-1`);
  },

  'ListMultipartUploads lists the open uploads in pages': async (subject) => {
    const uploads = [
      await begin(subject, 'open/b'),
      await begin(subject, 'open/a'),
      await begin(subject, 'open/b'),
    ];
    const found: string[] = [];
    let markers = {};
    for (let more = true; more; ) {
      const page = await subject.s3.send(
        new ListMultipartUploadsCommand({
          Bucket: subject.bucket,
          Prefix: 'open/',
          MaxUploads: 1,
          ...markers,
        }),
      );
      found.push(...(page.Uploads ?? []).map(({ Key, UploadId }) => `${Key} ${UploadId}`));
      markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
      more = page.IsTruncated === true;
    }
    const names = uploads.map(({ ids }) => `${ids.Key} ${ids.UploadId}`);
    expect(found[0]).toBe(names[1]);
    expect(found.toSorted()).toEqual(names.toSorted());
    for (const upload of uploads) await upload.abort();
  },
};
