import { type Handler, requireBucket } from './context.ts';

export const headBucket: Handler = (context) => {
  const bucket = requireBucket(context);
  return { status: 200, headers: { 'x-amz-bucket-region': bucket.region } };
};
