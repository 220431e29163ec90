import { defineDestination } from '../define-destination.ts';
import { openNoOpDestination } from './writer.ts';

export const noOpDefinition = defineDestination({
  type: 'NoOp',
  description: 'Reads, encodes and counts rows, but writes nothing.',
  properties: {},
  keepsFiles: false,
  buffersParts: false,
  validate: () => [],
  place: () => 'nowhere',
  open: openNoOpDestination,
});
