import { parseArgs } from 'node:util';
import { startControl } from './control.ts';
import { startS3Server } from './server.ts';

/**
 * The S3 server as a process of its own. Prints one line,
 * `ready {"endpoint":"http://…","control":"http://…"}`, and ends on SIGTERM or SIGINT.
 */
const { values } = parseArgs({
  options: {
    bucket: { type: 'string', multiple: true, default: [] },
    region: { type: 'string', default: 'us-east-1' },
    'access-key-id': { type: 'string' },
    'secret-access-key': { type: 'string' },
    'min-part-bytes': { type: 'string' },
    'max-parts': { type: 'string' },
    quirks: { type: 'string', default: '{}' },
  },
});

const { 'access-key-id': accessKeyId, 'secret-access-key': secretAccessKey } = values;
if (accessKeyId === undefined || secretAccessKey === undefined) {
  throw new Error('--access-key-id and --secret-access-key are required.');
}
const minPartBytes = values['min-part-bytes'];
const maxParts = values['max-parts'];
const server = await startS3Server({
  buckets: values.bucket,
  credentials: { accessKeyId, secretAccessKey },
  region: values.region,
  quirks: JSON.parse(values.quirks),
  ...(minPartBytes === undefined ? {} : { minPartBytes: Number(minPartBytes) }),
  ...(maxParts === undefined ? {} : { maxParts: Number(maxParts) }),
});
const control = await startControl(server);

const stop = async (): Promise<void> => {
  await Promise.all([server.close(), control.close()]);
};
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
console.log(
  `ready ${JSON.stringify({ endpoint: server.endpoint, control: `http://127.0.0.1:${control.port}` })}`,
);
