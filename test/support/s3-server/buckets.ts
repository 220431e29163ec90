import { type Handler, isoTime, requireBucket } from './context.ts';
import { S3Error } from './errors.ts';
import { Bucket } from './storage.ts';
import { childText, element, parseXml, resultDocument } from './xml.ts';

const owner = element('Owner', [element('ID', 'sluice-test')]);

export const listBuckets: Handler = ({ buckets }) => ({
  status: 200,
  body: resultDocument('ListAllMyBucketsResult', [
    owner,
    element(
      'Buckets',
      [...buckets.values()]
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .map(({ name, createdAt, region }) =>
          element('Bucket', [
            element('Name', name),
            element('CreationDate', isoTime(createdAt)),
            element('BucketRegion', region),
          ]),
        ),
    ),
  ]),
});

/** Length, characters, no look-alike of an IP address: the rules for general purpose buckets. */
function isBucketName(name: string): boolean {
  return (
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) &&
    !name.includes('..') &&
    !/^\d+\.\d+\.\d+\.\d+$/.test(name)
  );
}

export const createBucket: Handler = async (context) => {
  const name = context.request.bucket ?? '';
  if (!isBucketName(name))
    throw new S3Error('InvalidBucketName', { details: { BucketName: name } });
  const body = await context.readBody();
  const text = Buffer.concat(body.chunks).toString('utf8');
  const root = text === '' ? undefined : parseXml(text);
  if (root === null) throw new S3Error('MalformedXML');
  // Without a constraint a bucket is in us-east-1, which only that region's endpoint may make.
  const wanted = (root && childText(root, 'LocationConstraint')) || 'us-east-1';
  if (wanted !== context.region) {
    throw new S3Error('IllegalLocationConstraintException', {
      message: `The ${wanted} location constraint is incompatible for the region specific endpoint this request was sent to.`,
    });
  }
  if (context.buckets.has(name)) {
    if (context.region !== 'us-east-1') throw new S3Error('BucketAlreadyOwnedByYou');
  } else {
    context.buckets.set(name, new Bucket(name, context.region, context.now()));
  }
  return { status: 200, headers: { location: `/${name}` } };
};

export const headBucket: Handler = (context) => {
  const bucket = requireBucket(context);
  return { status: 200, headers: { 'x-amz-bucket-region': bucket.region } };
};

export const deleteBucket: Handler = (context) => {
  const bucket = requireBucket(context);
  if (bucket.objects.size > 0) throw new S3Error('BucketNotEmpty');
  context.buckets.delete(bucket.name);
  return { status: 204 };
};

export const getBucketLocation: Handler = (context) => {
  const { region } = requireBucket(context);
  return {
    status: 200,
    body: resultDocument('LocationConstraint', [{ xml: region === 'us-east-1' ? '' : region }]),
  };
};
