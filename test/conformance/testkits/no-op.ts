import { type DestinationTestkit, invalidFileConfigs } from './testkit.ts';

export const testkit: DestinationTestkit = {
  type: 'NoOp',
  keepsFiles: false,
  start: async () => ({
    config: {},
    context: {},
    invalid: invalidFileConfigs,
    stop: async () => {},
  }),
};
