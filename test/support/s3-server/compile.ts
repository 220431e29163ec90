import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Compiles the S3 server, which Node 20 cannot run as TypeScript, without a check of its types: that is the type
 * check's matter.
 *
 * @returns its program
 */
export async function compileS3Server(outDir: string): Promise<string> {
  await mkdir(outDir, { recursive: true });
  const config = path.join(outDir, 'tsconfig.json');
  await writeFile(
    config,
    JSON.stringify({
      extends: path.join(root, 'tsconfig.json'),
      compilerOptions: {
        noEmit: false,
        noCheck: true,
        outDir,
        rootDir: root,
        typeRoots: [path.join(root, 'node_modules/@types')],
      },
      include: [],
      files: [fileURLToPath(new URL('main.ts', import.meta.url))],
    }),
  );
  await writeFile(path.join(outDir, 'package.json'), '{"type":"module"}');
  const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
  await promisify(execFile)(process.execPath, [tsc, '-p', config]);
  return path.join(outDir, 'test/support/s3-server/main.js');
}
