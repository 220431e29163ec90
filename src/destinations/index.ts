import type { DestinationDefinition } from './destination.ts';
import { fileDefinition } from './file/definition.ts';
import { noOpDefinition } from './no-op/definition.ts';
import { s3Definition } from './s3/definition.ts';

/** Every destination, in the order in which the page and the documentation show them. */
export const destinationDefinitions: readonly DestinationDefinition[] = [
  s3Definition,
  fileDefinition,
  noOpDefinition,
];

/** The definition of a type as the API names it, or null. */
export function findDestination(type: string): DestinationDefinition | null {
  return destinationDefinitions.find((definition) => definition.type === type) ?? null;
}
