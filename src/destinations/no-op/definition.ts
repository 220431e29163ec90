import { Type } from 'typebox';
import type { DestinationDefinition } from '../destination.ts';
import { fileProperties, validateFileConfig } from '../file-config.ts';
import { NoOpDestination } from './writer.ts';

export const noOpDefinition: DestinationDefinition = {
  type: 'NoOp',
  configSchema: Type.Object(fileProperties, {
    additionalProperties: false,
    description: 'Reads, encodes and counts, and writes nothing.',
  }),
  validate: (config) => validateFileConfig(config),
  place: () => 'nowhere',
  open: () => new NoOpDestination(),
};
