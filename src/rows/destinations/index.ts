import type { DestinationDefinition } from './destination.ts';
import { fileDefinition } from './file/definition.ts';
import { type FormatChoice, withFileSettings } from './file-config.ts';
import { noOpDefinition } from './no-op/definition.ts';
import { s3Definition } from './s3/definition.ts';

/** Every destination, in the order in which the page and the documentation show them. */
export const ownDefinitions = [s3Definition, fileDefinition, noOpDefinition];

export function joinDestinations(
  formats: readonly FormatChoice[],
  definitions: readonly DestinationDefinition[] = ownDefinitions,
): readonly DestinationDefinition[] {
  return definitions.map((definition) => withFileSettings(definition, formats));
}
