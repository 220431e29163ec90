import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DestinationTestkit, invalidFileConfigs } from './testkit.ts';

export const testkit: DestinationTestkit = {
  type: 'File',
  keepsFiles: true,
  start: async () => {
    const root = await mkdtemp(join(tmpdir(), 'sluice-file-'));
    return {
      config: { directory: 'exports/acme' },
      context: { fileDestinationRoot: root },
      invalid: [
        ...invalidFileConfigs,
        ...['/etc', '../up', 'a/../../b', 'a//b', './a', '.sluice-x', 'a\0b'].map((directory) => ({
          change: { directory },
          attr: 'directory',
        })),
      ],
      stop: () => rm(root, { recursive: true, force: true }),
    };
  },
};
