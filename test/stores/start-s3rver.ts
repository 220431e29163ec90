import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { findFreePorts, openDaemons } from './daemons.ts';
import { answers, newCredentials, type RunningStore } from './store.ts';

const version = '3.7.1';

/** It knows one key of its own; it looks up the key of a request, and not its signature. */
const program = (folder: string, port: number, keyId: string, secret: string) => `
const { DUMMY_ACCOUNT } = require('s3rver/lib/models/account');
DUMMY_ACCOUNT.createKeyPair(${JSON.stringify(keyId)}, ${JSON.stringify(secret)});
const S3rver = require('s3rver');
new S3rver({ address: '127.0.0.1', port: ${port}, directory: ${JSON.stringify(folder)}, vhostBuckets: false }).run();
`;

/** From npm, into the folder of its data: it is no dependency of ours. About 10 seconds. */
export async function startS3rver(region: string): Promise<RunningStore> {
  const daemons = await openDaemons('s3rver');
  try {
    const { folder } = daemons;
    const quietly = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts'];
    await daemons.run('npm', 'install', '--prefix', folder, ...quietly, `s3rver@${version}`);
    const [port = 0] = await findFreePorts(1);
    const data = path.join(folder, 'data');
    await mkdir(data);
    const credentials = newCredentials();
    const { accessKeyId, secretAccessKey } = credentials;
    const main = path.join(folder, 'main.cjs');
    await writeFile(main, program(data, port, accessKeyId, secretAccessKey));
    // It encrypts the tokens of its lists with DES.
    daemons.start('s3rver', process.execPath, '--openssl-legacy-provider', main);
    const endpoint = `http://127.0.0.1:${port}`;
    await daemons.untilReady('s3rver answers', () => answers(endpoint));
    const title = `s3rver ${version}`;
    return { name: 's3rver', title, endpoint, region, credentials, stop: daemons.stop };
  } catch (error) {
    await daemons.stop();
    throw error;
  }
}
