import { completeMultipartUpload } from './complete-upload.ts';
import type { Handler } from './context.ts';
import { S3Error } from './errors.ts';
import { listMultipartUploads, listObjects } from './listing.ts';
import { abortMultipartUpload, createMultipartUpload, listParts, uploadPart } from './multipart.ts';
import { deleteObject, getObject, putObject, headBucket } from './objects.ts';
import type { OperationName } from './operations.ts';

export const handlers: Record<OperationName, Handler> = {
  AbortMultipartUpload: abortMultipartUpload,
  CompleteMultipartUpload: completeMultipartUpload,
  CreateMultipartUpload: createMultipartUpload,
  DeleteObject: deleteObject,
  GetObject: getObject,
  HeadBucket: headBucket,
  HeadObject: getObject,
  ListMultipartUploads: listMultipartUploads,
  ListObjectsV2: listObjects,
  ListParts: listParts,
  PutObject: putObject,
  UploadPart: uploadPart,
  Unknown: () => {
    throw new S3Error('NotImplemented');
  },
};
